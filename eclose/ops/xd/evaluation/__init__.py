"""The orders in which an XD-operation can be evaluated: all the same function."""

from collections.abc import Sequence

from torch import Tensor

from eclose.ops.kernels import traced
from eclose.ops.xd.axes.axis import Axis
from eclose.ops.xd.evaluation.autograd import Order, recomputed
from eclose.ops.xd.evaluation.frequency import Frequency
from eclose.ops.xd.evaluation.inputs import Terms
from eclose.ops.xd.evaluation.shifts import im2col, sandwich
from eclose.ops.xd.evaluation.shifts.order import ShiftOrder

ORDERS: dict[str, Order] = {
    "frequency": Frequency(),
    "sandwich": ShiftOrder(sandwich.arranged, sandwich.disarranged, sandwich.applied, sandwich.applied_gradients),
    "im2col": ShiftOrder(im2col.arranged, im2col.disarranged, im2col.applied, im2col.applied_gradients),
}


def orders_of(axes: Sequence[Axis], *, causal: bool = False) -> list[str]:
    """Orders that an operation has: all with dense matrices, ``merged``, without them, on one axis, ``flat`` on more.

    ``flat`` is the frequency order with all axes as one.
    """
    if causal:  # a mask on shifts
        return [name for name in ORDERS if name != "frequency"]
    if len(axes) > 1:
        return [*ORDERS, "flat"]
    return [*ORDERS, "merged"] if axes[0].merges else [*ORDERS]


def evaluate(order: Order, terms: Terms, *, recompute: bool = True) -> Tensor:
    """The output; with ``recompute`` only the terms are kept for the backward pass."""
    if recompute and not traced():  # a traced program has no parts: it serves every batch
        return recomputed(order, terms)
    return order.formula(terms)
