"""What orders of evaluation take of K, L and M, made for many operations of equal geometry at once.

All tensors are ``(operations, 2, ...)``, so that what is one operation's lies together.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from torch import Tensor

from eclose.ops.xd.algebra.kronecker_product import kronecker
from eclose.ops.xd.algebra.pairs_first import adjoint
from eclose.ops.xd.evaluation.bias_tap import with_bias
from eclose.ops.xd.evaluation.shifts.tensors import shift_tensors

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
        found = []
        for place in range(len(self.outer[0])):
            outer, filters, inner, shifts = ([tensors[place] for tensors in part] for part in parts)
            found.append(Prepared(outer, filters, inner, shifts, self.joint))
        return found


Bias = Callable[[], Tensor | None]
"""b, ``(operations, 2, *transforms, 1)``, or of complex gates b and i b, for those who need it."""

Form = Callable[[Matrices, Bias], Prepared]
"""From the matrices of all axes to what an order takes."""


def dense(matrices: Matrices, bias: Bias) -> Prepared:
    """Just these."""
    outer, filters, inner = matrices
    return Prepared([adjoint(matrix, pairs=1) for matrix in outer], filters, inner)


def frequency(matrices: Matrices, bias: Bias) -> Prepared:
    """These, and b as a column of L where there is one axis."""
    found = dense(matrices, bias)
    return _joint(found, bias, aligned=True) if len(found.outer) == 1 else found


def flat(matrices: Matrices, bias: Bias) -> Prepared:
    """All axes as one."""
    axes = dense(matrices, bias)
    outer, filters, inner = ([kronecker(part)] for part in (axes.outer, axes.filters, axes.inner))
    return _joint(Prepared(outer, filters, inner), bias, aligned=True)


def shifted(matrices: Matrices, bias: Bias) -> Prepared:
    """With shift tensors; b is a tap where there is one axis."""
    found = dense(matrices, bias)
    found = _joint(found, bias, aligned=False) if len(found.outer) == 1 else found
    return replace(found, shifts=shift_tensors(found.outer, found.filters, found.inner))


def _joint(found: Prepared, bias: Bias, *, aligned: bool) -> Prepared:
    return replace(found, filters=[with_bias(found.filters[0], bias(), aligned)], joint=True)


FORMS: dict[str, Form] = {"frequency": frequency, "flat": flat, "sandwich": shifted, "im2col": shifted}
"""By order of evaluation."""
