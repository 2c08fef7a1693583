"""InceptionTime (Ismail Fawaz et al. 2020) over one to three axes: kernels of several lengths side by side."""

from typing import Any

import torch
from torch import nn

from eclose.backbones.factory import backbones
from eclose.backbones.layers import DropPath, answer, batch_norm, conv, max_pool
from eclose.backbones.needs import need_at_least, need_odd, need_probability
from eclose.backbones.shortening import Sizes, halving, shortened, stem, strided, taps
from eclose.signature import Signature

_WIDTH = {1: 32, 2: 32, 3: 16}
_LONGEST_KERNEL = {1: 39, 2: 7, 3: 5}
_SHORTEST_KERNEL = 3
_IN_A_GROUP = 3  # blocks between two shortcuts
_STEM_KERNEL = 7


class InceptionBlock(nn.Module):
    """``y = relu(norm(conv_k1(b), conv_k2(b), conv_k3(b), pointwise(max_pool(x))))``, ``b = bottleneck(x)``."""

    def __init__(self, inputs: int, width: int, kernels: list[Sizes]) -> None:
        super().__init__()
        axes = len(kernels[0])
        narrow = inputs > width
        self.bottleneck = conv(axes)(inputs, width, 1, bias=False) if narrow else nn.Identity()
        self.convolutions = nn.ModuleList(
            conv(axes)(min(inputs, width), width, kernel, padding=tuple(k // 2 for k in kernel), bias=False)
            for kernel in kernels
        )
        self.pool = max_pool(axes)(3, stride=1, padding=1)
        self.pooled = conv(axes)(inputs, width, 1, bias=False)
        self.norm = batch_norm(axes)(width * (len(kernels) + 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, inputs, *space)
        """``(batch, 4 width, *space)``."""
        b = self.bottleneck(x)
        branches = [*(convolution(b) for convolution in self.convolutions), self.pooled(self.pool(x))]
        return nn.functional.relu(self.norm(torch.cat(branches, dim=1)))


class InceptionGroup(nn.Module):
    """``y = relu(blocks(x) + norm(pointwise(x)))``."""

    def __init__(self, inputs: int, width: int, kernels: list[Sizes], blocks: int, drop_path: float) -> None:
        super().__init__()
        axes, outputs = len(kernels[0]), width * (len(kernels) + 1)
        self.blocks = nn.Sequential(
            *(InceptionBlock(outputs if number else inputs, width, kernels) for number in range(blocks))
        )
        self.drop_path = DropPath(drop_path)
        self.shortcut = nn.Sequential(conv(axes)(inputs, outputs, 1, bias=False), batch_norm(axes)(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, inputs, *space)
        """``(batch, 4 width, *space)``."""
        return nn.functional.relu(self.drop_path(self.blocks(x)) + self.shortcut(x))


def three_kernels(longest: int, axes: int) -> tuple[int, int, int]:
    """Odd sizes: on one axis each about half of the one before (39, 19, 9), on more the next smaller (7, 5, 3)."""
    if axes == 1:
        return longest, longest // 2 | 1, longest // 4 | 1
    return longest, max(longest - 2, 1), max(longest - 4, 1)


def sizes(signature: Signature, *, width: int, kernel: int, **others: Any) -> dict[str, Any]:
    """The options of the network, with what 0 stands for."""
    axes = signature.axes
    most = min(_LONGEST_KERNEL[axes], max(signature.sizes) // (2 if axes == 1 else 1))
    return {"width": width or _WIDTH[axes], "kernel": kernel or max(most - 1 | 1, _SHORTEST_KERNEL), **others}


@backbones.register("inception", effective=sizes)
def inception(
    signature: Signature,
    *,
    width: int = 0,
    blocks: int = 6,
    kernel: int = 0,
    regions: int = 1,
    dropout: float = 0.0,
    drop_path: float = 0.0,
) -> nn.Module:
    """InceptionTime for signals, images and volumes, with one answer a sample or one at every position.

    Each block has three kernels, the longest of ``kernel`` points, the others on one axis of about a half and a
    quarter, on more of two and four points less; every third block ends with a shortcut. ``width`` is the number of
    channels of each kernel. What is left open is a kernel of half the signal, at most 39 points, on two axes of at most
    7 points, on three of 5, and a width of 32 (16 on three axes). One answer a sample is read off the averages of the
    features over so many ``regions`` of every axis. ``dropout`` is that of what the answer is read off, ``drop_path``
    that of three blocks at a time.
    """
    need_at_least("inception", 0, width=width, kernel=kernel)
    need_at_least("inception", 1, blocks=blocks, regions=regions)
    need_probability("inception", dropout=dropout, drop_path=drop_path)
    chosen = sizes(signature, width=width, kernel=kernel)
    width, kernel = chosen["width"], chosen["kernel"]
    need_odd("inception", kernel=kernel)
    layers: list[nn.Module] = []
    inputs, space = signature.channels, signature.sizes
    if signature.pooled:
        layers, inputs, space = stem(signature, width, _STEM_KERNEL)
    for done in range(0, blocks, _IN_A_GROUP):
        stride = halving(space)
        if done and signature.pooled and max(stride) > 1:
            layers += strided(inputs, inputs, taps(3, space), stride)
            space = shortened(space, stride)
        kernels = [taps(size, space) for size in three_kernels(kernel, signature.axes)]
        layers.append(InceptionGroup(inputs, width, kernels, min(_IN_A_GROUP, blocks - done), drop_path))
        inputs = 4 * width
    if not signature.pooled:
        return nn.Sequential(*layers, nn.Dropout(dropout), conv(signature.axes)(inputs, signature.outputs, 1))
    return nn.Sequential(*layers, *answer(inputs, space, signature.outputs, regions, dropout))
