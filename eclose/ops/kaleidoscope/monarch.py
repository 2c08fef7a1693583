"""Butterfly blocks on long signals: the stages merged into two block-diagonal factors (Monarch form).

With ``n = n_1 n_2`` and an index written as (high, low), a block of decreasing strides is

    y[o_1, i_2] = sum_(i_1) g_1[o_1, i_1, i_2] x[i_1, i_2],    z[o_1, o_2] = sum_(i_2) g_2[o_1, o_2, i_2] y[o_1, i_2]:

two batched matrix products of cost n (n_1 + n_2) a signal. A block of increasing strides, its transpose, runs them
backwards and so begins in the layout in which its predecessor ends.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from eclose.ops.kaleidoscope import butterfly, pairs
from eclose.ops.kaleidoscope.sizes import Radices


def apply(entries: Tensor, radices: Radices, orders: Sequence[bool], x: Tensor) -> Tensor:
    """``B_d ... B_1 x``: entries ``(*batch, depth, entries, 2)`` and signals ``(*batch, vectors, n, 2)``."""
    cut = butterfly.halfway(radices)
    high, low = math.prod(radices[:cut]), math.prod(radices[cut:])
    real, imaginary = (butterfly.views(part.contiguous(), radices) for part in entries.unbind(-1))
    by_low = torch.stack(butterfly.merged(real[:cut], imaginary[:cut]), dim=-1)  # (.., 1, high out, high in, low, 2)
    by_low = by_low.squeeze(-5).movedim(-2, -4)  # (*batch, depth, low, high out, high in, 2)
    by_high = torch.stack(butterfly.merged(real[cut:], imaginary[cut:]), dim=-1).squeeze(-2)
    signal = x.unflatten(-2, (high, low))
    signal = signal.movedim(-3, -4) if orders[0] else signal.movedim(-2, -4)
    signal = signal.flatten(-2)  # (*batch, high, vectors, low * 2) or (*batch, low, vectors, high * 2)
    for block, increasing in enumerate(orders):
        g_low, g_high = by_low.select(-5, block), by_high.select(-5, block)
        if increasing:
            signal = _exchanged(signal @ pairs.blocks(g_high)) @ pairs.blocks(g_low)
        else:
            signal = signal @ pairs.blocks(g_low.transpose(-3, -2))
            signal = _exchanged(signal) @ pairs.blocks(g_high.transpose(-3, -2))
    signal = signal.unflatten(-1, (-1, 2))
    signal = signal.movedim(-4, -2) if orders[-1] else signal.movedim(-4, -3)
    return signal.flatten(-3, -2)


def _exchanged(signal: Tensor) -> Tensor:  # (*batch, a, vectors, b * 2)
    """``(*batch, b, vectors, a * 2)``."""
    return signal.unflatten(-1, (-1, 2)).transpose(-4, -2).flatten(-2)
