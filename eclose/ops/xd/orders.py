"""The orders in which an XD-operation can be evaluated: all the same function."""

import torch
from torch import Tensor

from eclose.ops.xd import im2col, sandwich
from eclose.ops.xd.frequency import Frequency
from eclose.ops.xd.recompute import Order, recomputed
from eclose.ops.xd.taps import TapOrder
from eclose.ops.xd.terms import Terms

ORDERS: dict[str, Order] = {
    "frequency": Frequency(),
    "sandwich": TapOrder(sandwich.arranged, sandwich.applied, sandwich.slopes),
    "im2col": TapOrder(im2col.arranged, im2col.applied, im2col.slopes),
}


def evaluate(order: str, terms: Terms, *, recompute: bool = True) -> Tensor:
    """The output; with ``recompute`` only the terms are kept for the backward pass."""
    if order not in ORDERS:
        raise ValueError(f"{order!r} is no order of evaluation; there are {', '.join(ORDERS)}")
    if recompute and not torch.compiler.is_compiling():  # a traced program has no parts: it serves every batch
        return recomputed(ORDERS[order], terms)
    return ORDERS[order].formula(terms)
