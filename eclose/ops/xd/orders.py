"""The orders in which an XD-operation can be evaluated: all the same function."""

from torch import Tensor

from eclose.ops.xd.frequency import frequency, frequency_gradients
from eclose.ops.xd.im2col import im2col
from eclose.ops.xd.recompute import Gradients, Order, recomputed
from eclose.ops.xd.sandwich import sandwich
from eclose.ops.xd.terms import Terms

ORDERS: dict[str, Order] = {"frequency": frequency, "sandwich": sandwich, "im2col": im2col}
GRADIENTS: dict[str, Gradients] = {"frequency": frequency_gradients}


def orders_of(axes: int, *, causal: bool = False) -> list[str]:
    """Orders that an operation on so many axes has: all with dense matrices, and ``merged``, without, on one axis."""
    if causal:  # a mask on shifts
        return [name for name in ORDERS if name != "frequency"]
    return [*ORDERS, "merged"] if axes == 1 else [*ORDERS]


def evaluate(order: str, terms: Terms, *, recompute: bool = True) -> Tensor:
    """The output; with ``recompute`` only the terms are kept for the backward pass."""
    if order not in ORDERS:
        raise ValueError(f"{order!r} is no order of evaluation; there are {', '.join(ORDERS)}")
    return recomputed(ORDERS[order], terms, GRADIENTS.get(order)) if recompute else ORDERS[order](terms)
