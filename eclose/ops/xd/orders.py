"""The orders in which an XD-operation can be evaluated: all the same function."""

from collections.abc import Callable

from torch import Tensor

from eclose.ops.xd.frequency import frequency
from eclose.ops.xd.recompute import recomputed
from eclose.ops.xd.terms import Terms

ORDERS: dict[str, Callable[[Terms], Tensor]] = {"frequency": frequency}


def evaluate(order: str, terms: Terms, *, recompute: bool = True) -> Tensor:
    """The output; with ``recompute`` only the terms are kept for the backward pass."""
    if order not in ORDERS:
        raise ValueError(f"{order!r} is no order of evaluation; there are {', '.join(ORDERS)}")
    return recomputed(order, terms) if recompute else ORDERS[order](terms)
