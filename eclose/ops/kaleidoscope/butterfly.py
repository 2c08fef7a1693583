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
from typing import Any

import torch
from torch import Tensor

from eclose.ops.kaleidoscope.sizes import Radices
from eclose.ops.kernels import served


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


def join(x: Tensor, y: Tensor) -> Tensor:  # (2, *batch, m, n), (2, *batch, k, n)
    """Every row of one complex matrix times every row of another, entry by entry: ``(2, *batch, k, m, n)``.

    Real and imaginary parts lie along the first dimension: innermost loops over whole rows are several times faster
    than over pairs.
    """
    found: Tensor = _Join.apply(x, y)
    return found


class _Join(torch.autograd.Function):
    """The derivative by a factor is that by the product times the other's conjugate, summed up over its rows.

    It is made of operations that can be differentiated again, wherever that may be asked for.
    """

    @staticmethod
    def forward(x: Tensor, y: Tensor) -> Tensor:
        if served(x, y, double=True):
            from eclose.ops.kaleidoscope import triton_join

            return triton_join.product(x, y)
        (a, b), (c, d) = x.unsqueeze(-3), y.unsqueeze(-2)
        return torch.stack([torch.addcmul(a * c, b, d, value=-1), torch.addcmul(a * d, b, c)])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, Tensor]:  # (2, *batch, k, m, n)
        x, y = ctx.saved_tensors
        if served(cotangent, x, y, double=True):
            from eclose.ops.kaleidoscope import triton_join

            return triton_join.derivatives(cotangent, x, y)
        return _summed(cotangent, y.unsqueeze(-2), -3), _summed(cotangent, x.unsqueeze(-3), -2)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, int | None], x: Tensor, y: Tensor) -> tuple[Tensor, int]:
        x, y = (
            part.expand(info.batch_size, *part.shape).movedim(0, 1) if dim is None else part.movedim(dim, 1)
            for part, dim in zip((x, y), in_dims, strict=True)
        )
        return _Join.apply(x, y), 1


def _summed(cotangent: Tensor, factor: Tensor, dim: int) -> Tensor:
    """``z conj(w)``, summed up along a dimension."""
    (real, imaginary), (c, d) = cotangent, factor
    found = (torch.addcmul(real * c, imaginary, d), torch.addcmul(imaginary * c, real, d, value=-1))
    return torch.stack([part.sum(dim) for part in found])
