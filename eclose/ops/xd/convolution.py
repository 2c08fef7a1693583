"""The plain convolution that an XD-operation starts as: exact while its architecture is frozen there."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from eclose.ops.xd.geometry import Axis

CONVOLUTIONS: dict[int, Callable[..., Tensor]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def convolution(x: Tensor, weight: Tensor, bias: Tensor | None, axes: Sequence[Axis], groups: int) -> Tensor:
    """``(batch, c_out, *outs)`` of ``(batch, c_in, *sizes)``."""
    padding = [axis.left for axis in axes]
    mode = axes[0].mode
    if mode != "zeros" or any(axis.left != axis.right for axis in axes):
        ends = [end for axis in reversed(axes) for end in (axis.left, axis.right)]
        x = F.pad(x, ends, mode="constant" if mode == "zeros" else mode)
        padding = [0] * len(axes)
    stride, dilation = [axis.stride for axis in axes], [axis.dilation for axis in axes]
    return CONVOLUTIONS[len(axes)](x, weight, bias, stride, padding, dilation, groups)


def untrained(y: Tensor, parameters: Iterable[Tensor], reason: str) -> Tensor:
    """``y`` itself, of which a backward pass that would have to reach ``parameters`` fails for a ``reason``."""
    return _Untrained.apply(y, reason, *parameters)


class _Untrained(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, reason: str, *parameters: Tensor) -> Tensor:
        ctx.reason = reason
        return y.view_as(y)

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Any:
        raise ValueError(ctx.reason)
