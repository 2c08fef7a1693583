"""A small U-Net (Ronneberger et al. 2015) over any axes: the default for an answer at every position."""

from typing import Any

import torch
from torch import nn

from eclose.backbones.factory import backbones
from eclose.backbones.layers import batch_norm, conv
from eclose.backbones.needs import need_at_least, need_dense
from eclose.backbones.shortening import Sizes
from eclose.signature import Signature

_SMALLEST = 4  # points that every halved axis keeps
_WIDTH = {1: 32, 2: 32, 3: 16}
_LEVELS = {1: 6, 2: 4, 3: 3}


def level_strides(space: Sizes, levels: int) -> list[Sizes]:
    """For each level the axes that it halves (2) or leaves (1); it ends where no axis can be halved."""
    strides: list[Sizes] = []
    while len(strides) < levels:
        stride = tuple(2 if -(-n // 2) >= _SMALLEST else 1 for n in space)
        if max(stride) == 1:
            break
        space = tuple(-(-n // s) for n, s in zip(space, stride, strict=True))
        strides.append(stride)
    return strides


def conv_norm_relu(axes: int, inputs: int, outputs: int, stride: Sizes) -> list[nn.Module]:
    """Convolution of size 3, batch norm, ReLU."""
    convolution = conv(axes)(inputs, outputs, 3, stride=stride, padding=1, bias=False)
    return [convolution, batch_norm(axes)(outputs), nn.ReLU()]


class UNet(nn.Module):
    """``d_i = down_i(d_{i-1})``, ``u_i = up_i(u_{i+1} at the size of d_i, d_i)``, ``y = head(u_0)``.

    Coarser levels come from strided convolutions and go back by copying the nearest point, to the exact size
    of the finer level: any size works, and every backward pass is deterministic on CUDA, unlike those of
    pooling over three axes and of linear interpolation.
    """

    def __init__(self, signature: Signature, width: int, levels: int) -> None:
        super().__init__()
        axes = signature.axes
        strides = [(1,) * axes, *level_strides(signature.sizes, levels)]
        widths = [width, *(2 * width for _ in strides[1:])]
        inputs = [signature.channels, *widths]
        flat = strides[0]
        self.down = nn.ModuleList(
            nn.Sequential(*conv_norm_relu(axes, a, b, stride), *conv_norm_relu(axes, b, b, flat))
            for a, b, stride in zip(inputs, widths, strides, strict=False)
        )
        self.up = nn.ModuleList(
            nn.Sequential(*conv_norm_relu(axes, a + b, a, flat), *conv_norm_relu(axes, a, a, flat))
            for a, b in zip(widths, widths[1:], strict=False)
        )
        self.head = conv(axes)(width, signature.outputs, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, channels, *space)
        """``(batch, outputs, *space)``."""
        skips = []
        for down in self.down:
            x = down(x)
            skips.append(x)
        x = skips.pop()
        for up in reversed(self.up):
            skip = skips.pop()
            x = nn.functional.interpolate(x, size=skip.shape[2:], mode="nearest")
            x = up(torch.cat([skip, x], dim=1))
        y: torch.Tensor = self.head(x)
        return y


def sizes(signature: Signature, *, width: int, levels: int) -> dict[str, Any]:
    """The options of the network, with what 0 stands for."""
    axes = signature.axes
    most = len(level_strides(signature.sizes, _LEVELS[axes]))
    return {"width": width or _WIDTH[axes], "levels": levels or most}


@backbones.register("unet", effective=sizes)
def unet(signature: Signature, *, width: int = 0, levels: int = 0) -> nn.Module:
    """U-Net for signals, images and volumes of any size.

    ``width`` of 0 is 32 on one or two axes and 16 on three. ``levels`` is the number of halvings; an axis
    is halved only while it keeps 4 points. 0 is as many as that allows, at most 6 on one axis, 4 on two, 3 on three.
    """
    need_dense("unet", signature)
    need_at_least("unet", 0, width=width, levels=levels)
    return UNet(signature, **sizes(signature, width=width, levels=levels))
