r"""One butterfly block: ``B = T_q ... T_2 T_1``, a sparse matrix for every stage.

Write an index below ``n = r_1 r_2 .. r_q`` as digits, the most significant first. Stage a mixes digit a alone,
by a matrix of r_a x r_a for every value of the other digits:

    (T_a x)[l, o, s] = sum_i t_a[l, o, i, s] x[l, i, s],    l < r_1 .. r_(a-1),  s < r_(a+1) .. r_q.

The strides n / r_1, .., r_q, 1 decrease. There is one path from every input to every output, so

    B[o_1 .. o_q, i_1 .. i_q] = prod_a t_a[o_1 .. o_(a-1), o_a, i_a, i_(a+1) .. i_q].

The entries of all stages lie one behind the other in one tensor: n sum_a r_a pairs, t_1 first. A block of
increasing strides is kept as the block of decreasing strides of which it is the transpose.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from eclose.ops.kaleidoscope import pairs
from eclose.ops.kaleidoscope.sizes import Radices


def entries_of(radices: Radices) -> int:
    """How many complex entries the stages of a block have: 2 n log2 n for powers of two."""
    return math.prod(radices) * sum(radices)


def identity(radices: Radices) -> Tensor:
    """Entries ``(entries, 2)`` of the block that is the identity, in either stride order."""
    entries = torch.zeros(entries_of(radices), 2)
    for stage in views(entries, radices):
        stage[..., 0].diagonal(dim1=1, dim2=2).fill_(1)
    return entries


def views(entries: Tensor, radices: Radices) -> list[Tensor]:  # (*batch, entries, 2)
    """The stages of blocks, each ``(*batch, left, out, in, right, 2)``: views of ``entries``."""
    size, left, found = math.prod(radices), 1, []
    for radix, stage in zip(radices, entries.split([size * r for r in radices], dim=-2), strict=True):
        found.append(stage.unflatten(-2, (left, radix, radix, size // (left * radix))))
        left *= radix
    return found


def merged(parts: Sequence[Tensor], turns: Sequence[Tensor]) -> Tensor:  # each (*batch, left, out, in, right, 2)
    """Product of neighbouring stages ``(*batch, left, out, in, right, 2)``, with ``i t`` of each given too.

    Recursive doubling: a stage behind the product so far extends every path by one digit, so each step is one
    broadcast multiplication without additions; all together they cost about 2 n^2.
    """
    product = parts[0]
    for stage, turn in zip(parts[1:], turns[1:], strict=True):
        left, out, inner = product.shape[-5:-2]
        radix, right = stage.shape[-3:-1]
        batch = product.shape[:-5]
        before = product.reshape(*batch, left, out, 1, inner, radix, right, 2)
        product = pairs.multiply(
            before,
            stage.reshape(*batch, left, out, radix, 1, radix, right, 2),
            turn.reshape(*batch, left, out, radix, 1, radix, right, 2),
        ).reshape(*batch, left, out * radix, inner * radix, right, 2)
    return product


def dense(entries: Tensor, radices: Radices) -> Tensor:  # (*batch, entries, 2)
    """Blocks of decreasing strides as matrices ``(*batch, n, n, 2)``, all of them in the same few operations."""
    turns = views(pairs.turned(entries), radices)
    return merged(views(entries, radices), turns).flatten(-5, -4).flatten(-3, -2)
