"""The linear model of a position in a field: one filter for all positions."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from eclose.engine.predictors.choice import some
from eclose.engine.predictors.features import FEATURES, fewer_channels, not_zero
from eclose.engine.predictors.solve import logistic, ridge
from eclose.signature import Signature
from eclose.tasks import Split, Task
from eclose.tasks.scale import blocks

_WINDOW = 256  # values that a filter sees at most, unless there are more channels
_POSITIONS = 10_000  # windows that it is fitted to
_HELD = 2**22  # numbers of outputs in memory together

_CONV = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}


class Filter(nn.Module):
    """``bias + weight * (x - mean)``; beyond the edge lies the mean."""

    def __init__(self, mean: Tensor, weight: Tensor, bias: Tensor) -> None:
        # (channels, *space), (outputs, channels, *window), (outputs, *space), or with ones for the space axes
        super().__init__()
        self.mean = nn.Parameter(mean, requires_grad=False)
        self.weight = nn.Parameter(weight.float(), requires_grad=False)
        self.bias = nn.Parameter(bias.float(), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:  # (batch, channels, *space)
        """``(batch, outputs, *space)``."""
        centred = (fewer_channels(x.double(), len(self.mean)) - self.mean).float()
        reach = [size // 2 for size in self.weight.shape[2:]]
        filtered: Tensor = _CONV[len(reach)](centred, self.weight, padding=reach)
        return filtered + self.bias


def filters(task: Task) -> Iterator[Filter]:
    """One a penalty; for values also with means at each position, which suit fields that have their places."""
    signature, part = task.signature, some(task.train)
    x_mean, y_mean = _means(part, signature)
    yield from _fitted(part, signature, _overall(x_mean), _overall(y_mean))
    if not signature.labels:
        yield from _fitted(part, signature, x_mean, y_mean)


def _fitted(part: Split, signature: Signature, x_mean: Tensor, y_mean: Tensor) -> Iterator[Filter]:
    window = _window(signature)
    x, y = _sampled(part, signature, x_mean, window)
    by_channel = x.view(len(x), len(x_mean), -1)
    spread = not_zero(by_channel.square().mean((0, 2)).sqrt()).repeat_interleave(by_channel.shape[2])
    x = x / spread
    ones = (1,) * signature.axes
    shape = (signature.outputs, len(x_mean), *window)
    if signature.labels:
        for weight, bias in logistic(x, y.long(), signature.outputs):
            yield Filter(x_mean, (weight / spread[:, None]).T.reshape(shape), bias.view(-1, *ones))
        return
    for weight in ridge(x, y - y.mean(0)):
        yield Filter(x_mean, (weight / spread[:, None]).T.reshape(shape), y_mean)


def _window(signature: Signature) -> tuple[int, ...]:
    """The largest window of odd sizes that is small enough; no larger than reaches from edge to edge."""
    channels, size = min(signature.channels, FEATURES), 1
    while channels * (size + 2) ** signature.axes <= _WINDOW:
        size += 2
    return tuple(min(size, 2 * points - 1) for points in signature.sizes)


def _means(part: Split, signature: Signature) -> tuple[Tensor, Tensor]:
    """Of inputs and of continuous targets, at each position."""
    channels = min(signature.channels, FEATURES)
    x_sum = torch.zeros(channels, *signature.sizes, dtype=torch.float64)
    y_sum = torch.zeros(signature.outputs, *signature.sizes, dtype=torch.float64)
    for index in blocks(part):
        x, y = part.take(index)
        x_sum += fewer_channels(x.double(), channels).sum(0)
        if not signature.labels:
            y_sum += y.double().sum(0)
    return x_sum / len(part), y_sum / len(part)


def _overall(mean: Tensor) -> Tensor:
    return mean.mean(tuple(range(1, mean.ndim)), keepdim=True)


def _sampled(part: Split, signature: Signature, mean: Tensor, window: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Windows ``(n, channels * window)`` of centred inputs, and targets ``(n, outputs)`` or labels ``(n,)`` there."""
    points = math.prod(signature.sizes)
    wanted = min(_POSITIONS, _HELD // signature.outputs)
    each = min(points, math.ceil(wanted / len(part)))
    spaced = torch.arange(each) * points // each
    padding = [size // 2 for size in reversed(window) for _ in range(2)]
    windows, targets = [], []
    for index in blocks(part):
        x, y = part.take(index)
        padded = functional.pad(fewer_channels(x.double(), len(mean)) - mean, padding)
        for axis, size in enumerate(window):
            padded = padded.unfold(2 + axis, size, 1)  # (batch, channels, *space, *window)
        # Other positions in every sample, so that together they cover the field.
        flat = (spaced + 7919 * index[:, None]) % points
        sample = torch.arange(len(index))[:, None].expand_as(flat).flatten()
        where: list[Any] = list(torch.unravel_index(flat.flatten(), signature.sizes))
        windows.append(padded[sample, :, *where].flatten(1))
        targets.append(y[sample, *where] if signature.labels else y[sample, :, *where].double())
    return torch.cat(windows), torch.cat(targets)
