"""Butterfly blocks on long signals: the stages merged into block-diagonal factors (Monarch form).

With ``n = n_1 n_2`` and an index written as (high, low), a block of decreasing strides is

    y[o_1, i_2] = sum_(i_1) g_1[o_1, i_1, i_2] x[i_1, i_2],    z[o_1, o_2] = sum_(i_2) g_2[o_1, o_2, i_2] y[o_1, i_2]:

two batched matrix products of cost n (n_1 + n_2) a signal. A block of increasing strides, its transpose, runs them
backwards, so that it begins with the digits with which its predecessor ends: these two factors are multiplied, and
d blocks are d + 1 products.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from eclose.ops.kaleidoscope import butterfly, pairs
from eclose.ops.kaleidoscope.sizes import Radices


def halves(radices: Radices) -> tuple[int, int]:
    """``n_1`` and ``n_2``: how many values the high and the low digits have; 1 and n where there is one stage only."""
    cut = butterfly.halfway(radices) if len(radices) > 1 else 0
    return math.prod(radices[:cut]), math.prod(radices[cut:])


def factors(entries: Tensor, radices: Radices, orders: Sequence[bool]) -> list[Tensor]:
    """The d + 1 factors of ``B_d ... B_1``, that applied first being first: entries ``(*batch, depth, entries, 2)``.

    In turns they are ``(*batch, low, high out, high in, 2)`` and ``(*batch, high, low out, low in, 2)``; the first
    one is of the second kind where the strides of B_1 increase.
    """
    by_low, by_high = _merged_halves(entries, radices)
    found: list[Tensor] = []
    for block, increasing in enumerate(orders):
        first, second = by_low.select(-5, block), by_high.select(-5, block)
        if increasing:
            first, second = second.transpose(-3, -2), first.transpose(-3, -2)
        found[-1:] = [pairs.matmul(first, found[-1]) if found else first, second]
    return found


def apply(entries: Tensor, radices: Radices, orders: Sequence[bool], x: Tensor) -> Tensor:
    """``B_d ... B_1 x``: entries ``(*batch, depth, entries, 2)`` and signals ``(*batch, vectors, n, 2)``."""
    signal = x.unflatten(-2, halves(radices)).transpose(-4, -3)  # (*batch, high, vectors, low, 2)
    if not orders[0]:
        signal = signal.transpose(-4, -2)
    for place, factor in enumerate(factors(entries, radices, orders)):
        signal = signal if place == 0 else signal.transpose(-4, -2)
        signal = pairs.matmul(signal, factor.transpose(-3, -2))
    if orders[-1]:
        signal = signal.transpose(-4, -2)
    return signal.transpose(-4, -3).flatten(-3, -2)


def _merged_halves(entries: Tensor, radices: Radices) -> tuple[Tensor, Tensor]:
    """``(*batch, depth, low, high out, high in, 2)`` and ``(*batch, depth, high, low out, low in, 2)``."""
    if len(radices) == 1:
        by_high = entries.unflatten(-2, (1, *radices, *radices))
        one = torch.stack([entries.new_ones(()), entries.new_zeros(())])
        return one.expand(*entries.shape[:-2], *radices, 1, 1, 2), by_high
    cut = butterfly.halfway(radices)
    stages = butterfly.views(torch.stack(entries.unbind(-1)), radices)
    by_low = butterfly.merged(stages[:cut])  # (2, .., 1, high out, high in, low)
    by_high = butterfly.merged(stages[cut:])  # (2, .., high, low out, low in, 1)
    return by_low.squeeze(-4).movedim((-1, 0), (-4, -1)), by_high.squeeze(-1).movedim(0, -1)
