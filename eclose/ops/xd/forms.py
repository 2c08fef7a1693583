"""What orders of evaluation take of K, L and M, made for many operations of equal geometry at once.

All tensors are ``(operations, 2, ...)``, so that what is one operation's lies together.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from eclose.ops.xd.kronecker_product import kronecker
from eclose.ops.xd.shifts import shift_tensors
from eclose.ops.xd.transforms import adjoint

Matrices = tuple[list[Tensor], list[Tensor], list[Tensor]]
"""K ``(.., out, transform)``, L ``(.., transform, kernel)`` and M ``(.., transform, size)`` of every axis."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """The adjoint of K ``(.., transform, out)``, L and M as they are, and shifts, of all axes."""

    outer: list[Tensor]
    filters: list[Tensor]
    inner: list[Tensor]
    shifts: list[Tensor] = field(default_factory=list)

    def each(self) -> "list[Prepared]":
        """Of every operation its own."""
        parts = [[tensor.unbind() for tensor in part] for part in (self.outer, self.filters, self.inner, self.shifts)]
        return [
            Prepared(*([tensors[place] for tensors in part] for part in parts)) for place in range(len(self.outer[0]))
        ]


Bias = Callable[[], Tensor | None]
"""b, ``(operations, 2, *transforms, 1)``, or of complex gates b and i b, for those who need it."""

Form = Callable[[Matrices, Bias], Prepared]
"""From the matrices of all axes to what an order takes."""


def dense(matrices: Matrices, bias: Bias) -> Prepared:
    """Just these."""
    outer, filters, inner = matrices
    return Prepared([adjoint(matrix, pairs=1) for matrix in outer], filters, inner)


def flat(matrices: Matrices, bias: Bias) -> Prepared:
    """All axes as one."""
    axes = dense(matrices, bias)
    return Prepared(*([kronecker(part)] for part in (axes.outer, axes.filters, axes.inner)))


def shifted(matrices: Matrices, bias: Bias) -> Prepared:
    """With shift tensors."""
    axes = dense(matrices, bias)
    shifts = shift_tensors(*matrices, bias() if len(axes.outer) == 1 else None)
    return Prepared(axes.outer, axes.filters, axes.inner, shifts)


FORMS: dict[str, Form] = {"frequency": dense, "flat": flat, "sandwich": shifted, "im2col": shifted}
"""By order of evaluation."""
