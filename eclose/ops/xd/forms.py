"""What orders of evaluation take of K, L and M, made for many operations of equal geometry at once.

All tensors are ``(operations, 2, ...)``, so that what is one operation's lies together.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce

from torch import Tensor

from eclose.ops.xd.kronecker_product import kronecker
from eclose.ops.xd.shifts import shift_tensors


@dataclass(frozen=True, eq=False)
class Prepared:
    """K ``(.., out, transform)``, L ``(.., transform, kernel)``, M ``(.., transform, size)`` and shifts of all axes."""

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

Form = Callable[[Prepared, Bias], Prepared]
"""From the matrices of all axes to what an order takes."""


def dense(matrices: Prepared, bias: Bias) -> Prepared:
    """Just these."""
    return matrices


def flat(matrices: Prepared, bias: Bias) -> Prepared:
    """All axes as one."""
    return Prepared(*([reduce(kronecker, part)] for part in (matrices.outer, matrices.filters, matrices.inner)))


def shifted(matrices: Prepared, bias: Bias) -> Prepared:
    """With shift tensors."""
    outer, filters, inner = matrices.outer, matrices.filters, matrices.inner
    return Prepared(outer, filters, inner, shift_tensors(outer, filters, inner, bias() if len(outer) == 1 else None))


FORMS: dict[str, Form] = {"frequency": dense, "flat": flat, "sandwich": shifted, "im2col": shifted}
"""By order of evaluation."""
