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

from eclose.ops.kaleidoscope.join import join
from eclose.ops.kaleidoscope.sizes import Radices


def entries_of(radices: Radices) -> int:
    """How many complex entries the stages of a block have: 2 n log2 n for powers of two."""
    return math.prod(radices) * sum(radices)


def identity(radices: Radices, like: Tensor | None = None) -> Tensor:
    """Entries ``(entries, 2)`` of the identity block, in either stride order; placed and typed as ``like``."""
    shape = (entries_of(radices), 2)
    entries = torch.zeros(shape) if like is None else like.new_zeros(shape)
    for stage in views(entries[:, 0], radices):
        stage.diagonal(dim1=1, dim2=2).fill_(1)
    return entries


def views(entries: Tensor, radices: Radices) -> list[Tensor]:  # (*batch, entries)
    """The stages of blocks, each ``(*batch, left, out, in, right)``: views of ``entries``."""
    size, left, found = math.prod(radices), 1, []
    for radix, stage in zip(radices, entries.split([size * r for r in radices], dim=-1), strict=True):
        found.append(stage.unflatten(-1, (left, radix, radix, size // (left * radix))))
        left *= radix
    return found


def merged(stages: Sequence[Tensor]) -> Tensor:  # each (2, *batch, left, out, in, right)
    """Product of neighbouring stages, ``(2, *batch, left, out, in, right)``.

    Two groups of stages are joined by one broadcast multiplication without additions: every path through the
    first goes on with every path through the second. Halving again and again makes the last product, of n^2
    entries, the only large one.
    """
    if len(stages) == 1:
        return stages[0]
    cut = halfway(tuple(stage.shape[-2] for stage in stages))
    first, second = merged(stages[:cut]), merged(stages[cut:])
    left, out, inner = first.shape[-4:-1]
    more_out, more_in, right = second.shape[-3:]
    found = join(first.flatten(-4, -3), second.flatten(-2))  # (2, *batch, left * out, more_out, inner, more_in * right)
    return found.reshape(*first.shape[:-4], left, out * more_out, inner * more_in, right)


def halfway(radices: Radices) -> int:
    """Number of stages in the first of two groups whose sizes have the smallest sum."""
    return min(range(1, len(radices)), key=lambda cut: math.prod(radices[:cut]) + math.prod(radices[cut:]))


def dense(entries: Tensor, radices: Radices) -> Tensor:  # (2, *batch, entries)
    """Blocks of decreasing strides as matrices, ``(2, *batch, n, n)``: all in the same few operations."""
    return merged(views(entries, radices)).flatten(-4, -3).flatten(-2)
