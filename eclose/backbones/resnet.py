"""A residual network for signals, images and volumes (on one axis that of Wang et al. 2017, the usual strong baseline).

Its strides follow the input: axes of a few points keep them all, long ones are shortened first.
"""

from typing import Any

import torch
from torch import nn

from eclose.backbones.factory import backbones
from eclose.backbones.layers import DropPath, answer, batch_norm, conv
from eclose.backbones.needs import need_at_least, need_odd, need_pooled, need_probability
from eclose.backbones.shortening import Sizes, halving, shortened, stem, taps
from eclose.signature import Signature

_WIDTH = {1: 64, 2: 64, 3: 32}
_KERNELS = {1: (7, 5, 3), 2: (3, 3), 3: (3, 3)}
_STAGES = 3


class ResidualBlock(nn.Module):
    """``y = relu(norm(conv_n(... relu(norm(conv_1(x))))) + shortcut(x))``; the first convolution has the stride.

    The shortcut is ``x`` where shapes stay, else a pointwise convolution and its norm.
    """

    def __init__(self, inputs: int, outputs: int, kernels: list[Sizes], stride: Sizes, drop_path: float = 0.0) -> None:
        super().__init__()
        axes, flat = len(stride), (1,) * len(stride)
        layers: list[nn.Module] = []
        for number, kernel in enumerate(kernels):
            step, before = (flat, outputs) if number else (stride, inputs)
            padding = tuple(size // 2 for size in kernel)
            layers += [nn.ReLU()] if number else []
            layers.append(conv(axes)(before, outputs, kernel, stride=step, padding=padding, bias=False))
            layers.append(batch_norm(axes)(outputs))
        self.body = nn.Sequential(*layers, DropPath(drop_path))
        self.shortcut: nn.Module = nn.Identity()
        if inputs != outputs or stride != flat:
            pointwise = conv(axes)(inputs, outputs, 1, stride=stride, bias=False)
            self.shortcut = nn.Sequential(pointwise, batch_norm(axes)(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, inputs, *space)
        """``(batch, outputs, *ceil(space / stride))``."""
        return nn.functional.relu(self.body(x) + self.shortcut(x))


def stages(sizes: Sizes, width: int) -> list[tuple[int, Sizes]]:
    """Channels and first stride of each stage.

    The second stage has twice the channels of the first. The third doubles them again where it halves an axis of
    images or volumes, so that its points cost as much as those of the second.
    """
    planned, stride = [(width, (1,) * len(sizes))], (1,) * len(sizes)
    for number in range(1, _STAGES):
        stride = halving(sizes)
        sizes = shortened(sizes, stride)
        wider = number == 1 or (len(sizes) > 1 and max(stride) > 1)
        planned.append((planned[-1][0] * (2 if wider else 1), stride))
    return planned


def sizes(signature: Signature, *, width: int, blocks: int, kernels: tuple[int, ...], **others: Any) -> dict[str, Any]:
    """The options of the network, with what 0 and empty stand for."""
    axes = signature.axes
    deeper = axes == 2 and max(halving(signature.sizes)) > 1  # halved stages are cheap
    own = {"width": width or _WIDTH[axes], "blocks": blocks or (2 if deeper else 1)}
    return {**own, "kernels": tuple(kernels) or _KERNELS[axes], **others}


@backbones.register("resnet", effective=sizes)
def resnet(
    signature: Signature,
    *,
    width: int = 0,
    blocks: int = 0,
    kernels: tuple[int, ...] = (),
    regions: int = 1,
    dropout: float = 0.0,
    drop_path: float = 0.0,
) -> nn.Module:
    """Residual network for signals, images and volumes of any size, in three stages.

    ``width`` is the number of channels of the first stage, ``blocks`` their number in each, ``kernels`` the sizes of
    a block's convolutions. What is left open is 64, 1 and 7, 5, 3 on one axis; 64, 2 (1 for boards of at most 8
    points) and 3, 3 on two; 32, 1 and 3, 3 on three. The answer is read off the averages of the features over so many
    ``regions`` of every axis. ``dropout`` is that of these averages, ``drop_path`` that of whole blocks.
    """
    need_pooled("resnet", signature)
    need_at_least("resnet", 0, width=width, blocks=blocks)
    need_at_least("resnet", 1, regions=regions)
    need_probability("resnet", dropout=dropout, drop_path=drop_path)
    chosen = sizes(signature, width=width, blocks=blocks, kernels=kernels)
    width, blocks = chosen["width"], chosen["blocks"]
    need_odd("resnet", **{f"kernels[{place}]": kernel for place, kernel in enumerate(chosen["kernels"])})
    layers, inputs, space = stem(signature, width, chosen["kernels"][0])
    for outputs, first in stages(space, width):
        for block in range(blocks):
            stride = first if block == 0 else (1,) * len(space)
            kernels_here = [taps(kernel, space) for kernel in chosen["kernels"]]
            layers.append(ResidualBlock(inputs, outputs, kernels_here, stride, drop_path))
            inputs, space = outputs, shortened(space, stride)
    return nn.Sequential(*layers, *answer(inputs, space, signature.outputs, regions, dropout))
