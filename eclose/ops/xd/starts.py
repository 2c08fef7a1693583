"""From which geometry and weights an XD-operation starts: convolutions, average pooling, skips."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from eclose.ops.kaleidoscope import pairs
from eclose.ops.kaleidoscope.sizes import LARGEST
from eclose.ops.xd.geometry import Axis, Mode, plan_axis, same_padding

Conv = nn.Conv1d | nn.Conv2d | nn.Conv3d
Pool = nn.AvgPool1d | nn.AvgPool2d | nn.AvgPool3d


def conv_axes(
    conv: Conv, input_size: int | Sequence[int], *, max_kernel: int | None, paper: bool, largest: int
) -> list[Axis]:
    """The axes of a convolution; taps up to ``max_kernel`` come on both sides, and padding with them."""
    axes = []
    for place, size in enumerate(_each(input_size, len(conv.kernel_size), "input sizes")):
        kernel, dilation = conv.kernel_size[place], conv.dilation[place]
        if conv.padding == "same":
            padding = same_padding(kernel, dilation)
        else:
            padding = (0, 0) if isinstance(conv.padding, str) else (conv.padding[place],) * 2
        before, after = _grown(kernel, max_kernel)
        axes.append(
            plan_axis(
                size,
                kernel + before + after,
                stride=conv.stride[place],
                dilation=dilation,
                padding=(padding[0] + before * dilation, padding[1] + after * dilation),
                mode=_mode(conv.padding_mode),
                paper=paper,
                largest=largest,
            )
        )
    return axes


def grown_weight(conv: Conv, max_kernel: int | None) -> nn.Parameter:
    """The parameter of the convolution itself; a new one, with zeros around, where the kernel grows."""
    ends = [end for kernel in reversed(conv.kernel_size) for end in _grown(kernel, max_kernel)]
    if not any(ends):
        assert isinstance(conv.weight, nn.Parameter)
        return conv.weight
    return nn.Parameter(nn.functional.pad(conv.weight.detach(), ends), requires_grad=conv.weight.requires_grad)


def pool_axes(
    pool: Pool, input_size: int | Sequence[int], *, axes: int, paper: bool = False, largest: int = LARGEST
) -> list[Axis]:
    """The axes of an average pooling, where it is the same everywhere."""
    sizes = _each(input_size, axes, "input sizes")
    kernels, strides, paddings = (
        _each(given, axes, "numbers") for given in (pool.kernel_size, pool.stride, pool.padding)
    )
    if not pool.count_include_pad and any(paddings):
        raise ValueError("average pooling with count_include_pad=False is not the same everywhere: no XD-operation")
    found = []
    for size, kernel, stride, padding in zip(sizes, kernels, strides, paddings, strict=True):
        axis = plan_axis(size, kernel, stride=stride, padding=(padding,) * 2, paper=paper, largest=largest)
        if pool.ceil_mode and (size + 2 * padding - kernel) % stride:
            raise ValueError(f"average pooling with ceil_mode cuts its last window at size {size}: no XD-operation")
        found.append(axis)
    return found


def response_of(axes: Sequence[Axis], value: float) -> Tensor:
    """``(*transforms, 2)``: the transform, in natural order, of a kernel of which all taps are ``value``."""
    found = torch.full((), value, dtype=torch.complex128)
    for axis in axes:
        taps = torch.zeros(axis.transform, dtype=torch.float64).index_add_(
            0, axis.columns(), torch.ones(axis.kernel, dtype=torch.float64)
        )
        found = found.unsqueeze(-1) * torch.fft.fft(taps)
    return pairs.from_complex(found)


def tap_value(pool: Pool, axes: Sequence[Axis]) -> float:
    """What an average pooling multiplies its inputs by."""
    return 1 / (getattr(pool, "divisor_override", None) or math.prod(axis.kernel for axis in axes))


def _grown(kernel: int, max_kernel: int | None) -> tuple[int, int]:
    more = max(0, (max_kernel or kernel) - kernel)
    return more // 2, more - more // 2


def _mode(given: str) -> Mode:
    return given  # type: ignore[return-value]  # checked where the axis is planned


def _each(given: int | Sequence[int], axes: int, what: str) -> tuple[int, ...]:
    found = (given,) * axes if isinstance(given, int) else tuple(given)
    if len(found) == 1:
        found *= axes
    if len(found) != axes:
        raise ValueError(f"{len(found)} {what} given for {axes} axes: {found}")
    return found
