"""Random filters: at which share of the positions each of them exceeds a threshold, then one linear map.

After ROCKET and MiniRocket (Dempster, Petitjean and Webb 2020, 2021), which are for signals; here for 1 to 3 axes.
The filters are drawn once and never trained. Beside their shares the linear map sees a coarse view of the input itself.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from eclose.backbones.factory import backbones
from eclose.backbones.linear import LinearNetwork, Pooled, cells_of
from eclose.backbones.needs import need_at_least, need_pooled
from eclose.errors import ConfigError
from eclose.ops.precision import all_digits
from eclose.signature import Signature

_FILTERS = 1000  # of an input that has enough points for them
THRESHOLDS = 4  # of each filter
TAPS = {1: 9, 2: 3, 3: 3}  # along an axis
_SEEN = 256  # numbers of the coarse view at most
_CHANNELS = 9  # that a filter sees at most
_PIECE = 2**17  # numbers of a sample that are made at once

_CONV: dict[int, Callable[..., Tensor]] = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}


class RandomFilters(LinearNetwork):
    """``(features(x) - mean) weight + bias`` with shares of positions and a coarse view of x as features."""

    backbone = "random_filters"
    filters: Tensor
    thresholds: Tensor
    middle: Tensor
    spread: Tensor

    def __init__(self, signature: Signature, filters: int, cells: tuple[int, ...]) -> None:
        super().__init__()
        axes, channels = signature.axes, signature.channels
        taps = TAPS[axes]
        self.scales = _scales(signature.sizes, taps)
        self.dilations = [tuple(min(2**s, max(1, (n - 1) // (taps - 1))) for n in signature.sizes) for s in self.scales]
        self.counts = [filters // len(self.scales) + (s < filters % len(self.scales)) for s in self.scales]
        self.view = Pooled(min(channels, _SEEN), cells)
        ones = (1,) * axes
        self.register_buffer("filters", _drawn(filters, channels, (taps,) * axes))
        self.register_buffer("thresholds", torch.randn(THRESHOLDS, filters))
        self.register_buffer("middle", torch.zeros(channels, *ones, dtype=torch.float64))  # of the input
        self.register_buffer("spread", torch.ones(channels, *ones, dtype=torch.float64))
        count = THRESHOLDS * filters + self.view.count
        self.mean = nn.Parameter(torch.full((count,), 0.5))
        self.weight = nn.Parameter(torch.randn(count, signature.outputs) / math.sqrt(count))
        self.bias = nn.Parameter(torch.zeros(signature.outputs))

    def forward(self, x: Tensor) -> Tensor:  # (batch, channels, *space)
        """``(batch, outputs)``."""
        features = self.features(x) - self.mean
        with all_digits(x.device.type):
            return features @ self.weight + self.bias

    def features(self, x: Tensor) -> Tensor:
        """``(batch, features)``: shares, threshold by threshold for every piece of the filters, then the view."""
        x = self.scaled(x)
        shares: list[Tensor] = []
        for values, piece in self.filtered(x):
            for threshold in self.thresholds[:, piece]:
                shares.append((values > threshold[:, None]).to(values.dtype).mean(2))
        return torch.cat([*shares, self.view(x).to(x.dtype)], 1)

    def scaled(self, x: Tensor) -> Tensor:
        """In units of each channel's spread, centred in double precision."""
        return ((x.double() - self.middle) / self.spread).to(self.filters.dtype)

    def filtered(self, x: Tensor) -> Any:
        """Outputs ``(batch, filters, positions)`` of a few filters at a time, and which filters these are."""
        most, start = max(4, _PIECE // math.prod(x.shape[2:])), 0
        for dilation, count in zip(self.dilations, self.counts, strict=True):
            padding = [each * (self.filters.shape[-1] // 2) for each in dilation]
            for first in range(start, start + count, most):
                piece = slice(first, min(first + most, start + count))
                with all_digits(x.device.type):  # else rounding decides what exceeds a threshold
                    values = _CONV[x.ndim - 2](x, self.filters[piece], padding=padding, dilation=dilation)
                yield values.flatten(2), piece
            start += count


def _scales(sizes: tuple[int, ...], taps: int) -> range:
    """Filters are stretched by powers of two, as far as the longest axis has room for them."""
    return range(1 + int(math.log2(max(1.0, (max(sizes) - 1) / (taps - 1)))))


def _drawn(count: int, channels: int, taps: tuple[int, ...]) -> Tensor:
    """Normal weights whose sum over a channel is zero; of many channels each filter sees a few."""
    filters = torch.randn(count, channels, *taps)
    filters = filters - filters.flatten(2).mean(2).view(count, channels, *(1 for _ in taps))
    most = min(channels, _CHANNELS)
    seen = (2 ** (torch.rand(count) * math.log2(most + 1))).floor().clamp(1, most)
    place = torch.rand(count, channels).argsort(1).argsort(1)
    chosen = (place < seen[:, None]) / seen.sqrt()[:, None]
    return filters * chosen.view(count, channels, *(1 for _ in taps))


def _effective(signature: Signature, **options: Any) -> dict[str, Any]:
    need_at_least("random_filters", 0, filters=options["filters"])
    filters = options["filters"] or usual_filters(signature)
    cells = cells_of("random_filters", signature, options["cells"], max(1, _SEEN // signature.channels))
    return {**options, "filters": filters, "cells": cells}


def usual_filters(signature: Signature) -> int:
    """Fewer for inputs of few values."""
    return min(_FILTERS, max(64, 8 * signature.channels * math.prod(signature.sizes)))


@backbones.register("random_filters", effective=_effective)
def random_filters(signature: Signature, *, filters: int = 0, cells: tuple[int, ...] = ()) -> RandomFilters:
    """Random filters that are never trained, and one linear map of how often each exceeds a threshold (ROCKET)."""
    need_pooled("random_filters", signature)
    if signature.tokens:
        raise ConfigError("random_filters takes values, not tokens: choose another backbone")
    options = _effective(signature, filters=filters, cells=cells)
    network = RandomFilters(signature, options["filters"], tuple(options["cells"]))
    network.options = {"filters": options["filters"], "cells": list(options["cells"])}
    return network
