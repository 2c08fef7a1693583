"""The plain layer that an XD-operation starts as: exact while its architecture is frozen there."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from eclose.ops.fourier_layer import fourier_layer
from eclose.ops.xd.axes.axis import Axis
from eclose.ops.xd.axes.fourier import FrequencyAxis
from eclose.ops.xd.axes.transposed import TransposedAxis

Convolution = Callable[..., Tensor]
_CONVOLUTIONS: dict[int, Convolution] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED: dict[int, Convolution] = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def plain_layer(x: Tensor, weight: Tensor, bias: Tensor | None, axes: Sequence[Axis], groups: int) -> Tensor:
    """``(batch, c_out, *outs)`` of ``(batch, c_in, *sizes)``, the weight being as torch's layer has it."""
    if isinstance(axes[0], FrequencyAxis):
        return fourier_layer(x, weight)
    stride, dilation = [axis.stride for axis in axes], [axis.dilation for axis in axes]
    if isinstance(axes[0], TransposedAxis):
        y = _TRANSPOSED[len(axes)](x, weight, None, stride, 0, 0, groups, dilation)
        y = F.pad(y, [-end for axis in reversed(axes) for end in (axis.left, axis.right)])
        return y if bias is None else y + bias.to(y.dtype).view(-1, *[1] * len(axes))
    padding = [axis.left for axis in axes]
    mode = axes[0].mode
    if mode != "zeros" or any(axis.left != axis.right for axis in axes):
        ends = [end for axis in reversed(axes) for end in (axis.left, axis.right)]
        x = F.pad(x, ends, mode="constant" if mode == "zeros" else mode)
        padding = [0] * len(axes)
    return _CONVOLUTIONS[len(axes)](x, weight, bias, stride, padding, dilation, groups)


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
