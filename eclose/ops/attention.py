"""Attention that a tensor of features gives to itself (NOS paper, A.1.1): which channels and which points matter.

Several of a class can run together, each on an input of its own (``readings``, ``from_readings``: ``ops/alike.py``).
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eclose.ops.alike import Reading, stacked
from eclose.ops.conv_layers import layer


def reduced(channels: int, reduction: int) -> int:
    """Channels of a bottleneck, one at least."""
    return max(1, channels // reduction)


class ChannelAttention(nn.Module):
    """``sigmoid(V relu(U mean(x)))``: one factor for each of ``outputs`` channels, from the mean over space."""

    def __init__(self, inputs: int, outputs: int, axes: int, reduction: int = 16) -> None:
        super().__init__()
        conv, hidden = layer("Conv", axes), reduced(inputs, reduction)
        self.squeeze = conv(inputs, hidden, 1, bias=False)
        self.excite = conv(hidden, outputs, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # (batch, inputs, *space)
        """``(batch, outputs, *1)``."""
        mean = x.mean(dim=tuple(range(2, x.dim())), keepdim=True)
        factors: Tensor = self.excite(self.squeeze(mean).relu()).sigmoid()
        return factors

    def readings(self) -> list[Reading]:
        """None: it looks at the mean."""
        return []

    @staticmethod
    def from_readings(modules: Sequence["ChannelAttention"], outputs: Sequence[Tensor], x: Tensor) -> Tensor:
        """``(batch, modules, outputs, *1)`` from ``x (batch, modules, inputs, *space)``."""
        mean = x.flatten(3).mean(dim=3).permute(1, 2, 0)  # (modules, inputs, batch)
        hidden = (stacked([module.squeeze for module in modules]) @ mean).relu()
        factors = (stacked([module.excite for module in modules]) @ hidden).sigmoid().permute(2, 0, 1)
        return factors[(..., *(None,) * (x.dim() - 3))]


class SpatialAttention(nn.Module):
    """``sigmoid(v * relu(norm(U x)))``: one factor for each point, ``v`` a convolution of three points."""

    def __init__(self, inputs: int, stride: tuple[int, ...], reduction: int = 16, affine: bool = True) -> None:
        super().__init__()
        axes, hidden = len(stride), reduced(inputs, reduction)
        self.squeeze = layer("Conv", axes)(inputs, hidden, 1, stride=stride, bias=False)
        self.norm = layer("BatchNorm", axes)(hidden, affine=affine)
        self.map = layer("Conv", axes)(hidden, 1, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # (batch, inputs, *space)
        """``(batch, 1, *ceil(space / stride))``."""
        factors: Tensor = self.map(self.norm(self.squeeze(x)).relu()).sigmoid()
        return factors

    def readings(self) -> list[Reading]:
        """The narrow features."""
        return [Reading(self.squeeze, self.norm)]

    @staticmethod
    def from_readings(modules: Sequence["SpatialAttention"], outputs: Sequence[Tensor], x: Tensor) -> Tensor:
        """``(batch, modules, 1, *ceil(space / stride))``."""
        weight = torch.cat([module.map.get_parameter("weight") for module in modules])
        convolve = (F.conv1d, F.conv2d, F.conv3d)[x.dim() - 4]
        return convolve(outputs[0].flatten(1, 2), weight, padding=1, groups=len(modules)).sigmoid().unsqueeze(2)
