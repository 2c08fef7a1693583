"""The small residual network for signals, images and volumes: the default for one answer a sample.

Its strides follow the input: axes of a few points keep them all, long ones are shortened by the stem.
"""

from typing import Any

from torch import nn

from eclose.backbones.factory import backbones
from eclose.backbones.fit import need_at_least, need_odd, need_pooled, need_probability
from eclose.backbones.layers import GlobalAverage, batch_norm, conv
from eclose.backbones.preactivation import PreActivationBlock
from eclose.signature import Signature

WIDTH = {1: 32, 2: 32, 3: 16}
KERNEL = {1: 7, 2: 3, 3: 3}
LONGEST = {1: 512, 2: 64, 3: 32}  # points along an axis that the stages see
SHORTEST = 8  # an axis of at most this many points is not shortened any more
STAGES = 3

Sizes = tuple[int, ...]


def stem_strides(space: Sizes) -> list[Sizes]:
    """Strides of the stem's convolutions, at most 4 each, until every axis is short enough for the stages."""
    longest = LONGEST[len(space)]
    strides = []
    while max(space) > longest:
        stride = tuple(4 if n > 2 * longest else 2 if n > longest else 1 for n in space)
        space = tuple(-(-n // s) for n, s in zip(space, stride, strict=True))
        strides.append(stride)
    return strides or [(1,) * len(space)]


def stage_strides(space: Sizes) -> list[Sizes]:
    """Stride that each stage starts with: 1 in the first, then 2 along the axes that are long enough."""
    strides = [(1,) * len(space)]
    for _ in range(STAGES - 1):
        stride = tuple(2 if n > SHORTEST else 1 for n in space)
        space = tuple(-(-n // s) for n, s in zip(space, stride, strict=True))
        strides.append(stride)
    return strides


def stem(signature: Signature, width: int, kernel: int) -> tuple[list[nn.Module], Sizes]:
    """Convolutions from the input to ``width`` channels, and the sizes that they leave."""
    axes, space, inputs = signature.axes, signature.sizes, signature.channels
    layers: list[nn.Module] = []
    for stride in stem_strides(space):
        if layers:
            layers += [batch_norm(axes)(width), nn.ReLU()]
        taps = tuple(max(kernel, 2 * s - 1) for s in stride)  # wider than the stride: no point is left out
        padding = tuple(k // 2 for k in taps)
        layers.append(conv(axes)(inputs, width, taps, stride=stride, padding=padding, bias=False))
        space = tuple(-(-n // s) for n, s in zip(space, stride, strict=True))
        inputs = width
    return layers, space


def sizes(signature: Signature, *, width: int, kernel: int, **others: Any) -> dict[str, Any]:
    """The options of the network, with what 0 stands for."""
    axes = signature.axes
    return {"width": width or WIDTH[axes], "kernel": kernel or KERNEL[axes], **others}


@backbones.register("resnet", effective=sizes)
def resnet(
    signature: Signature, *, width: int = 0, blocks: int = 1, kernel: int = 0, dropout: float = 0.0
) -> nn.Module:
    """Small residual network for signals, images and volumes of any size.

    ``blocks`` is their number in each of the three stages. ``width`` and ``kernel`` of 0 are 32 and 7 on one
    axis, 32 and 3 on two, 16 and 3 on three.
    """
    need_pooled("resnet", signature)
    need_at_least("resnet", 0, width=width, kernel=kernel)
    need_at_least("resnet", 1, blocks=blocks)
    need_probability("resnet", dropout=dropout)
    axes = signature.axes
    width, kernel = sizes(signature, width=width, kernel=kernel).values()
    need_odd("resnet", kernel=kernel)
    layers, space = stem(signature, width, kernel)
    inputs = width
    for stage, first in enumerate(stage_strides(space)):
        outputs = width * 2**stage
        for block in range(blocks):
            stride = first if block == 0 else (1,) * axes
            taps = (kernel,) * axes
            layers.append(PreActivationBlock(axes, inputs, outputs, kernel=taps, stride=stride, dropout=dropout))
            inputs = outputs
    layers += [batch_norm(axes)(inputs), nn.ReLU(), GlobalAverage()]
    return nn.Sequential(*layers, nn.Linear(inputs, signature.outputs))
