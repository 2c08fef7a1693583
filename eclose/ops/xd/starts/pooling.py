"""From which geometry and bias an XD-operation starts where no weight counts: pooling and skips.

L is zero and b the transform of the kernel (Claims A.2 and A.3).
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from eclose.ops.kaleidoscope import pairs
from eclose.ops.xd.axes.axis import Axis, plan_axis
from eclose.ops.xd.options import Options
from eclose.ops.xd.starts.start import Start, architecture_of, each

Pool = nn.AvgPool1d | nn.AvgPool2d | nn.AvgPool3d
_POOLS: dict[type[nn.Module], int] = {nn.AvgPool1d: 1, nn.AvgPool2d: 2, nn.AvgPool3d: 3}


def pool_start(
    pool: Pool,
    channels: int,
    input_size: int | Sequence[int],
    dtype: torch.dtype | None,
    options: Options,
    *,
    fixed: bool = False,
) -> Start:
    """Average pooling, where it is the same everywhere; ``fixed``: its windows belong to this size."""
    axes = _pool_axes(pool, input_size, options, fixed)
    value = 1 / (getattr(pool, "divisor_override", None) or math.prod(axis.kernel for axis in axes))
    return _weightless(channels, axes, value, dtype, options)


def skip_start(
    channels: int,
    input_size: Sequence[int],
    stride: int,
    scale: float,
    dtype: torch.dtype | None,
    options: Options,
) -> Start:
    """Every ``stride``-th point, times ``scale``."""
    axes = [plan_axis(size, 1, stride=stride, paper=options.paper, largest=options.largest) for size in input_size]
    return _weightless(channels, axes, scale, dtype, options)


def _weightless(
    channels: int, axes: Sequence[Axis], value: float, dtype: torch.dtype | None, options: Options
) -> Start:
    """Each channel alone through a kernel of which all taps are ``value``: b, for L is zero."""
    if not options.bias:
        raise ValueError("what starts as pooling or a skip is its b and cannot do without: leave out bias=False")
    # The weight counts once L is not zero any more; it is drawn as torch's convolutions draw theirs.
    weight = nn.init.kaiming_uniform_(torch.empty(channels, 1, *[a.kernel for a in axes], dtype=dtype), a=math.sqrt(5))
    architecture = architecture_of(weight, axes, options, response=_response(axes, value))
    return Start(weight, axes, architecture, groups=channels, tap=value)


def _pool_axes(pool: Pool, input_size: int | Sequence[int], options: Options, fixed: bool) -> list[Axis]:
    """The axes of an average pooling, where it is the same everywhere."""
    if type(pool) not in _POOLS:
        raise ValueError(f"only AvgPool1d, AvgPool2d and AvgPool3d are average pooling, not {type(pool).__name__}")
    count = _POOLS[type(pool)]
    sizes = each(input_size, count, "input sizes")
    kernels, strides, paddings = (
        each(given, count, "numbers") for given in (pool.kernel_size, pool.stride, pool.padding)
    )
    if not pool.count_include_pad and any(paddings):
        raise ValueError("average pooling with count_include_pad=False is not the same everywhere: no XD-operation")
    axes = []
    for size, kernel, stride, padding in zip(sizes, kernels, strides, paddings, strict=True):
        axis = plan_axis(
            size, kernel, stride=stride, padding=(padding,) * 2, paper=options.paper, largest=options.largest
        )
        if pool.ceil_mode and (size + 2 * padding - kernel) % stride:
            raise ValueError(f"average pooling with ceil_mode cuts its last window at size {size}: no XD-operation")
        axes.append(replace(axis, fixed=fixed or pool.ceil_mode))
    return axes


def _response(axes: Sequence[Axis], value: float) -> Tensor:
    """``(*transforms, 2)``: the transform, in natural order, of a kernel of which all taps are ``value``."""
    response = torch.full((), value, dtype=torch.complex128)
    for axis in axes:
        taps = torch.zeros(axis.transform, dtype=torch.float64).index_add_(
            0, axis.columns(), torch.ones(axis.kernel, dtype=torch.float64)
        )
        response = response.unsqueeze(-1) * torch.fft.fft(taps)
    return pairs.from_complex(response)
