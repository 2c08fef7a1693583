"""Temporal convolutional network (Bai et al. 2018): dilated convolutions that double their reach from block to block.

Batch normalisation takes the place of the paper's weight normalisation. By default it sees both sides of a point, as
a signal that is there as a whole allows, and works on images and volumes too.
"""

from typing import Any

import torch
from torch import nn

from eclose.backbones.factory import backbones
from eclose.backbones.layers import DropPath, GlobalAverage, LastPoint, batch_norm, conv
from eclose.backbones.needs import need_at_least, need_odd, need_probability
from eclose.backbones.shortening import Sizes, behind_stem, stem, taps
from eclose.errors import ConfigError
from eclose.signature import Signature

_WIDTH = {1: 64, 2: 64, 3: 32}
_KERNEL = {1: 5, 2: 3, 3: 3}
_MOST_LEVELS = 8


class DilatedBlock(nn.Module):
    """``y = relu(f(f(x)) + shortcut(x))`` with ``f(x) = drop(relu(norm(dilated convolution(x))))``."""

    def __init__(
        self, inputs: int, outputs: int, kernel: Sizes, dilation: int, causal: bool, dropout: float, drop_path: float
    ) -> None:
        super().__init__()
        axes = len(kernel)
        layers: list[nn.Module] = []
        for before in (inputs, outputs):
            reach = tuple(dilation * (k - 1) for k in kernel)
            padding = (0,) * axes if causal else tuple(n // 2 for n in reach)
            layers += [nn.ConstantPad1d((reach[0], 0), 0.0)] if causal else []
            layers.append(conv(axes)(before, outputs, kernel, padding=padding, dilation=dilation, bias=False))
            layers += [batch_norm(axes)(outputs), nn.ReLU(), nn.Dropout(dropout)]
        self.body = nn.Sequential(*layers, DropPath(drop_path))
        self.shortcut = conv(axes)(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, inputs, *space)
        """``(batch, outputs, *space)``."""
        return nn.functional.relu(self.body(x) + self.shortcut(x))


def enough_levels(length: int, kernel: int) -> int:
    """Blocks after which a point has seen the whole axis; not more than 8."""
    levels = 1
    while levels < _MOST_LEVELS and 2 * (kernel - 1) * (2**levels - 1) < length - 1:
        levels += 1
    return levels


def sizes(signature: Signature, *, width: int, levels: int, kernel: int, **others: Any) -> dict[str, Any]:
    """The options of the network, with what 0 stands for."""
    axes = signature.axes
    kernel = kernel or _KERNEL[axes]
    space = behind_stem(signature.sizes) if _shortens(signature, others) else signature.sizes
    levels = levels or enough_levels(max(space), kernel)
    return {"width": width or _WIDTH[axes], "levels": levels, "kernel": kernel, **others}


def _shortens(signature: Signature, options: dict[str, Any]) -> bool:
    """A causal network must not: what a stride joins, a later point would share with an earlier one."""
    return signature.pooled and not options["causal"]


@backbones.register("tcn", effective=sizes)
def tcn(
    signature: Signature,
    *,
    width: int = 0,
    levels: int = 0,
    kernel: int = 0,
    causal: bool = False,
    dropout: float = 0.0,
    drop_path: float = 0.0,
) -> nn.Module:
    """Temporal convolutional network, with one answer a sample or one at every position.

    Each of the ``levels`` has two convolutions of ``kernel`` points, twice as far apart as those of the level before.
    What is left open is a width of 64 (32 on three axes), a kernel of 5 points (3 on two and three axes) and as many
    levels, at most 8, as it takes to see the whole axis. ``causal`` networks, on one axis, see only the past of every
    point; their one answer a sample is that at the last point. ``dropout`` is that inside of blocks, ``drop_path``
    that of whole blocks.
    """
    need_at_least("tcn", 0, width=width, levels=levels, kernel=kernel)
    need_probability("tcn", dropout=dropout, drop_path=drop_path)
    if causal and signature.axes != 1:
        raise ConfigError(
            f"backbone.causal is for signals along 1 axis, but an input of this task has {signature.axes}"
        )
    chosen = sizes(signature, width=width, levels=levels, kernel=kernel, causal=causal)
    width, kernel = chosen["width"], chosen["kernel"]
    need_odd("tcn", kernel=kernel)
    layers: list[nn.Module] = []
    inputs, space = signature.channels, signature.sizes
    if _shortens(signature, chosen):
        layers, inputs, space = stem(signature, width, kernel)
    for level in range(chosen["levels"]):
        layers.append(DilatedBlock(inputs, width, taps(kernel, space), 2**level, causal, dropout, drop_path))
        inputs = width
    if not signature.pooled:
        return nn.Sequential(*layers, conv(signature.axes)(inputs, signature.outputs, 1))
    return nn.Sequential(*layers, LastPoint() if causal else GlobalAverage(), nn.Linear(inputs, signature.outputs))
