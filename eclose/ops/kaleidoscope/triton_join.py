"""The products of :mod:`eclose.ops.kaleidoscope.butterfly` on a GPU: one kernel each way and factor, not many."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from eclose.ops.kernels import tiles_of

BLOCK = 256
"""Entries of a row, or of several rows that lie side by side, that a program works on."""


def product(x: Tensor, y: Tensor) -> Tensor:  # (2, *batch, m, n), (2, *batch, k, n)
    """``(2, *batch, k, m, n)``."""
    left, right = _flat(x), _flat(y)
    (_, *batch, m, n), k = left.shape, right.shape[-2]
    found = x.new_empty(2, *y.shape[1:-1], m, n)
    grid = (batch[0] * batch[1] * k, tiles_of(m * n, BLOCK))
    part = found.stride(0)
    _product[grid](left, right, found, batch[1], k, m, n, *left.stride()[:3], *right.stride()[:3], part, BLOCK)
    return found


def derivatives(cotangent: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:  # (2, *batch, k, m, n)
    """By x and by y, each of its shape."""
    cotangent, left, right = cotangent.contiguous(), _flat(x), _flat(y)
    (_, *batch, m, n), k = left.shape, right.shape[-2]
    by_x, by_y = (torch.empty_like(part, memory_format=torch.contiguous_format) for part in (x, y))
    rows, part = batch[0] * batch[1], cotangent.stride(0)
    # Of x the entries of all rows are one long row; of y each row is by itself, as the rows of x are summed up.
    _summed[rows, tiles_of(m * n, BLOCK)](
        cotangent, right, by_x, batch[1], 1, m * n, k, n, *right.stride()[:3], part, by_x.stride(0), 0, m * n,
        BLOCK, _wide(x),
    )  # fmt: skip
    _summed[rows * k, tiles_of(n, BLOCK)](
        cotangent, left, by_y, batch[1], k, n, m, n, *left.stride()[:3], part, by_y.stride(0), m * n, n,
        BLOCK, _wide(x),
    )  # fmt: skip
    return by_x, by_y


def _flat(x: Tensor) -> Tensor:  # (2, *batch, rows, n)
    """``(2, outer, inner, rows, n)``, rows side by side: the last dimension of a batch may have strides of its own."""
    x = x if x.stride(-1) == 1 and x.stride(-2) == x.shape[-1] else x.contiguous()
    return (x.unsqueeze(1) if x.dim() == 4 else x.unsqueeze(1).unsqueeze(1) if x.dim() == 3 else x).flatten(1, -4)


def _wide(x: Tensor) -> tl.dtype:
    """What sums are made in."""
    return tl.float64 if x.dtype == torch.float64 else tl.float32


@triton.jit
def _product(
    x, y, out, inner, k, m, n,
    x_part, x_outer, x_inner, y_part, y_outer, y_inner, out_part,
    block: tl.constexpr,
):  # fmt: skip
    """Row ``i`` of y times all of x."""
    which = tl.program_id(0).to(tl.int64)
    batch, i = which // k, which % k
    place = tl.program_id(1) * block + tl.arange(0, block)
    mask = place < m * n
    left = x + (batch // inner) * x_outer + (batch % inner) * x_inner + place
    right = y + (batch // inner) * y_outer + (batch % inner) * y_inner + i * n + place % n
    a, b = tl.load(left, mask), tl.load(left + x_part, mask)
    c, d = tl.load(right, mask), tl.load(right + y_part, mask)
    target = out + which * m * n + place
    tl.store(target, a * c - b * d, mask)
    tl.store(target + out_part, a * d + b * c, mask)


@triton.jit
def _summed(
    cotangent, factor, out, inner, rows, length, count, n,
    part, outer_stride, inner_stride, cotangent_part, out_part, row_stride, step,
    block: tl.constexpr, wide: tl.constexpr,
):  # fmt: skip
    """``sum_t z[t] conj(w[t])`` for ``length`` entries; z[t] are ``step`` apart, the rows w[t] of the factor n."""
    which = tl.program_id(0).to(tl.int64)
    batch, row = which // rows, which % rows
    place = tl.program_id(1) * block + tl.arange(0, block)
    mask = place < length
    z = cotangent + batch * count * step * rows + row * row_stride + place
    w = factor + (batch // inner) * outer_stride + (batch % inner) * inner_stride + place % n
    real = tl.zeros((block,), dtype=wide)
    imaginary = tl.zeros((block,), dtype=wide)
    for t in range(count):
        g, h = tl.load(z + t * step, mask).to(wide), tl.load(z + t * step + cotangent_part, mask).to(wide)
        c, d = tl.load(w + t * n, mask).to(wide), tl.load(w + t * n + part, mask).to(wide)
        real += g * c + h * d
        imaginary += h * c - g * d
    target = out + which * length + place
    tl.store(target, real, mask)
    tl.store(target + out_part, imaginary, mask)
