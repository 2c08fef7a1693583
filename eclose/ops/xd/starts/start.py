"""All that an XD-operation is made from, whatever it starts as."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from eclose.ops.kaleidoscope.sizes import Radices
from eclose.ops.xd.architecture import Architecture, Starts
from eclose.ops.xd.axes.axis import Axis
from eclose.ops.xd.options import Options

Layout = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Start:
    """``layout`` takes the layer's weight to ``(c_out, c_in / groups, *kernels)``; None: that is what it is."""

    weight: Tensor
    axes: Sequence[Axis]
    architecture: Architecture
    bias: Tensor | None = None  # (c_out,)
    groups: int = 1
    layout: Layout | None = None
    tap: float | None = None  # of the plain convolution, where the weight does not count yet
    layer: nn.Module | None = None  # whose hooks and computed tensors go over to the operation


def architecture_of(
    weight: Tensor,  # (c_out, c_in / groups, *kernels)
    axes: Sequence[Axis],
    options: Options,
    *,
    radices: Sequence[Radices] | None = None,
    starts: Starts | None = None,
    response: Tensor | None = None,
) -> Architecture:
    """K, L, M, b and C for a weight, as the options say."""
    return Architecture(
        axes,
        (weight.shape[0], weight.shape[1]),
        radices or [options.radices(axis.transform) for axis in axes],
        depth=options.depth,
        bias=options.bias,
        gates=options.gates,
        unitary=options.unitary,
        starts=starts,
        response=response,
        dtype=matrix_dtype(weight),
    )


def matrix_dtype(weight: Tensor) -> torch.dtype:
    """The precision of matrices: at least single."""
    return torch.promote_types(weight.dtype, torch.float32)


def each(given: int | Sequence[int], axes: int, what: str) -> tuple[int, ...]:
    """One number for every axis."""
    numbers = (given,) * axes if isinstance(given, int) else tuple(given)
    if len(numbers) == 1:
        numbers *= axes
    if len(numbers) != axes:
        raise ValueError(f"{len(numbers)} {what} given for {axes} axes: {numbers}")
    return numbers
