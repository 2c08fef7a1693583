"""The Fourier neural operator and its convolutional twin (XD paper, section 5 and appendix D).

Both are the network of Li et al. (2021): coordinates appended, a pointwise lift, blocks that add a mixing
over space to a pointwise map, a pointwise projection. Sizes by number of axes are those of their code. ``norm`` adds
the batch norm that ended a block when the XD paper was written and that their later code left out: where the mean of
a field matters, as in Burgers' equation, it does great harm.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import nn

from eclose.backbones.factory import backbones
from eclose.backbones.layers import GlobalAverage, Layer, batch_norm, conv
from eclose.backbones.needs import need_at_least
from eclose.backbones.spectral import SpectralConv
from eclose.errors import ConfigError
from eclose.registry import nearest
from eclose.signature import Signature

_WIDTH = {1: 64, 2: 32, 3: 20}
_MODES = {1: 16, 2: 12, 3: 4}
_PROJECTION = 128


def with_coordinates(x: torch.Tensor) -> torch.Tensor:  # (batch, channels, *space)
    """``(batch, channels + axes, *space)``: behind the channels, each axis' coordinate from 0 to 1."""
    space = x.shape[2:]
    grids = []
    for axis, size in enumerate(space):
        line = torch.linspace(0, 1, size, dtype=x.dtype, device=x.device)
        line = line.reshape([size if other == axis else 1 for other in range(len(space))])
        grids.append(line.expand(x.shape[0], 1, *space))
    return torch.cat([x, *grids], dim=1)


class OperatorBlock(nn.Module):
    """``y = norm(K x + W x)``: a mixing over space ``K`` beside a pointwise map ``W``."""

    def __init__(self, mixing: nn.Module, width: int, axes: int, norm: bool) -> None:
        super().__init__()
        self.mixing = mixing
        self.pointwise = conv(axes)(width, width, 1)
        self.norm = batch_norm(axes)(width) if norm else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, width, *space)
        """``(batch, width, *space)``."""
        y: torch.Tensor = self.norm(self.mixing(x) + self.pointwise(x))
        return y


class OperatorNetwork(nn.Module):
    """``u_0 = P(x, coordinates)``, ``u_{t+1} = relu(block_t(u_t))``, ``y = Q(u_T)``.

    There is no relu after the last block. One answer a sample is ``Q`` of the mean of ``u_T`` over space.
    """

    def __init__(self, signature: Signature, width: int, mixings: Iterable[nn.Module], norm: bool) -> None:
        super().__init__()
        axes = signature.axes
        self.lift = conv(axes)(signature.channels + axes, width, 1)
        self.blocks = nn.ModuleList(OperatorBlock(mixing, width, axes, norm) for mixing in mixings)
        self.pool = GlobalAverage() if signature.pooled else nn.Identity()
        pointwise: Layer = nn.Linear if signature.pooled else partial(conv(axes), kernel_size=1)
        self.project = nn.Sequential(
            pointwise(width, _PROJECTION), nn.ReLU(), pointwise(_PROJECTION, signature.outputs)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, channels, *space)
        """``(batch, outputs, *space)``, or ``(batch, outputs)`` for one answer a sample."""
        u = self.lift(with_coordinates(x))
        for number, block in enumerate(self.blocks):
            u = block(u if number == 0 else nn.functional.relu(u))
        y: torch.Tensor = self.project(self.pool(u))
        return y


def sizes(signature: Signature, *, width: int, modes: int, **others: Any) -> dict[str, Any]:
    """The options of both networks, with what 0 stands for."""
    axes = signature.axes
    chosen = {"width": width or _WIDTH[axes], "modes": modes or _MODES[axes], **others}
    if chosen.get("kernel") == 0:
        chosen["kernel"] = chosen["modes"] + 1
    return chosen


def fourier_sizes(signature: Signature, *, modes: int, **others: Any) -> dict[str, Any]:
    """Those of the Fourier neural operator: modes that are left open are at most those that the grid has."""
    most = max(1, min(signature.sizes) // 2)
    return sizes(signature, modes=modes or min(_MODES[signature.axes], most), **others)


@backbones.register("fno", effective=fourier_sizes)
def fno(signature: Signature, *, width: int = 0, modes: int = 0, layers: int = 4, norm: bool = False) -> nn.Module:
    """Fourier neural operator: the lowest Fourier modes of the whole domain, at any resolution.

    ``width`` and ``modes`` of 0 are 64 and 16 on one axis, 32 and 12 on two, 20 and 4 on three; of modes at most
    those that the grid has.
    """
    need_at_least("fno", 0, width=width, modes=modes)
    need_at_least("fno", 1, layers=layers)
    width, modes = fourier_sizes(signature, width=width, modes=modes).values()
    mixings = [SpectralConv(width, width, modes, signature.axes) for _ in range(layers)]
    return OperatorNetwork(signature, width, mixings, norm)


@backbones.register("cnn", effective=sizes)
def cnn(
    signature: Signature,
    *,
    width: int = 0,
    modes: int = 0,
    layers: int = 4,
    kernel: int = 0,
    padding: str = "circular",
    norm: bool = False,
) -> nn.Module:
    """Twin of the Fourier neural operator with convolutions, the start of XD searches on PDEs.

    ``kernel`` of 0 is ``modes + 1`` along every axis. It is cut to the size of a shorter axis, where more
    taps would only meet the same points again. ``padding`` is ``circular`` or ``zeros``.
    """
    if padding not in ("circular", "zeros"):
        raise ConfigError(f"backbone.padding is '{padding}'; {nearest(padding, ('circular', 'zeros'))}")
    need_at_least("cnn", 0, width=width, modes=modes, kernel=kernel)
    need_at_least("cnn", 1, layers=layers)
    width, modes, kernel = sizes(signature, width=width, modes=modes, kernel=kernel).values()
    taps = tuple(min(kernel, size) for size in signature.sizes)
    mixings = [
        conv(signature.axes)(width, width, taps, padding="same", padding_mode=padding, bias=False)
        for _ in range(layers)
    ]
    return OperatorNetwork(signature, width, mixings, norm)
