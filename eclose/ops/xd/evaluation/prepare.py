"""What orders of evaluation take of K, L, M, b, C and the weights.

Matrices are prepared for many operations of equal geometry at once: tensors ``(operations, 2, ...)``, so that what is
one operation's lies together. Where there is one axis, ``L w_ij + C_ij b`` is one product: b is one more column of L,
and C one more tap. Of complex gates b and i b are two more columns, the parts of C two more taps.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from eclose.ops.xd.algebra.kronecker_product import kronecker
from eclose.ops.xd.algebra.pairs_first import adjoint
from eclose.ops.xd.evaluation.shifts.tensors import shift_tensors
from eclose.ops.xd.gates import gated

ALIGNED = {"cpu": 1, "cuda": 4}
"""Taps come in multiples of this, the last ones zero: products of other sizes miss the matrix units of a GPU."""

Matrices = tuple[list[Tensor], list[Tensor], list[Tensor]]
"""K ``(.., out, transform)``, L ``(.., transform, kernel)`` and M ``(.., transform, size)`` of every axis."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """The adjoint of K ``(.., transform, out)``, L and M as they are, and shifts, of all axes.

    ``joint``: the columns of L end with b, and all axes are one.
    """

    outer: list[Tensor]
    filters: list[Tensor]
    inner: list[Tensor]
    shifts: list[Tensor] = field(default_factory=list)
    joint: bool = False

    def each(self) -> "list[Prepared]":
        """Of every operation its own."""
        parts = [[tensor.unbind() for tensor in part] for part in (self.outer, self.filters, self.inner, self.shifts)]
        operations = []
        for place in range(len(self.outer[0])):
            outer, filters, inner, shifts = ([tensors[place] for tensors in part] for part in parts)
            operations.append(Prepared(outer, filters, inner, shifts, self.joint))
        return operations


Bias = Callable[[], Tensor | None]
"""b, ``(operations, 2, *transforms, 1)``, or of complex gates b and i b, for those who need it."""

Preparation = Callable[[Matrices, Bias], Prepared]
"""From the matrices of all axes to what an order takes."""


def plain_matrices(matrices: Matrices, bias: Bias) -> Prepared:
    """Just these."""
    outer, filters, inner = matrices
    return Prepared([adjoint(matrix, pairs=1) for matrix in outer], filters, inner)


def for_frequency(matrices: Matrices, bias: Bias) -> Prepared:
    """These, and b as a column of L where there is one axis."""
    prepared = plain_matrices(matrices, bias)
    return _joint(prepared, bias, aligned=True) if len(prepared.outer) == 1 else prepared


def for_flat(matrices: Matrices, bias: Bias) -> Prepared:
    """All axes as one."""
    axes = plain_matrices(matrices, bias)
    outer, filters, inner = ([kronecker(part)] for part in (axes.outer, axes.filters, axes.inner))
    return _joint(Prepared(outer, filters, inner), bias, aligned=True)


def for_shifts(matrices: Matrices, bias: Bias) -> Prepared:
    """With shift tensors; b is a tap where there is one axis."""
    prepared = plain_matrices(matrices, bias)
    prepared = _joint(prepared, bias, aligned=False) if len(prepared.outer) == 1 else prepared
    return replace(prepared, shifts=shift_tensors(prepared.outer, prepared.filters, prepared.inner))


def _joint(prepared: Prepared, bias: Bias, *, aligned: bool) -> Prepared:
    return replace(prepared, filters=[with_bias_columns(prepared.filters[0], bias(), aligned)], joint=True)


PREPARATIONS: dict[str, Preparation] = {
    "frequency": for_frequency,
    "flat": for_flat,
    "sandwich": for_shifts,
    "im2col": for_shifts,
}
"""By order of evaluation."""


def with_bias_columns(filters: Tensor, bias: Tensor | None, aligned: bool) -> Tensor:
    """Filters ``(operations, 2, n, taps)`` with b behind them, ``(operations, 2, *transforms, 1 or 2)``."""
    taps = filters.shape[-1] + (0 if bias is None else bias.shape[-1])
    missing = -taps % ALIGNED.get(filters.device.type, 4) if aligned else 0
    if bias is None:
        return F.pad(filters, (0, missing)) if missing else filters
    columns = bias.flatten(2, -2)
    more = (0, missing, 0, filters.shape[2] - columns.shape[2])
    return torch.cat([filters, F.pad(columns, more) if any(more) else columns], dim=-1)


def with_gate_taps(weight: Tensor, gates: Tensor | None, bias: bool, taps: int) -> Tensor:
    """Weights ``(c_out, c_in / groups, taps)`` for these filters: C behind them (ones without it) where there is b.

    What meets the zeros of the filters does not count: numbers that are there already, which need not be made.
    """
    missing = taps - weight.shape[-1]
    if not bias:
        return F.pad(weight, (0, missing)) if missing else weight
    shape = (*weight.shape[:2], -1)
    columns = weight.new_ones(()).expand(*shape[:2], 1) if gates is None else gates.reshape(shape)
    parts = [weight, columns]
    if missing := missing - columns.shape[-1]:
        parts.append(columns[..., :1].detach().expand(-1, -1, missing))
    return torch.cat(parts, dim=-1)


@dataclass(frozen=True)
class GatedTaps:
    """Weights times C; ``pairs``: see :func:`gated`.

    ``joint``: all axes are one, and there are so many taps, C behind those of the weight where there is b.
    """

    pairs: bool
    joint: int
    bias: bool

    def of(self, weight: Tensor, gates: Tensor | None = None) -> Tensor:  # (c_out, c_in / groups, *kernels)
        """Those of one operation."""
        taps = weight if gates is None else gated(weight, gates, pairs=self.pairs)
        return with_gate_taps(taps.flatten(2), gates, self.bias, self.joint) if self.joint else taps
