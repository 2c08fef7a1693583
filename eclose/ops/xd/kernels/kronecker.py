"""Kronecker products of complex matrices on a GPU, many at once: they are written once, and read once a derivative."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from eclose.ops.kernels import power_of_two, tiles_of

ROW_PART = 1024
"""Entries of a row that a program writes."""


def kronecker_product(x: Tensor, y: Tensor, more: int) -> Tensor:  # (count, 2, n, m), (count, 2, k, p)
    """``(count, 2, n * k + more, m * p)``, zero in the last rows."""
    x, y = x.contiguous(), y.contiguous()
    (count, _, n, m), (k, p) = x.shape, y.shape[2:]
    rows, columns = n * k + more, m * p
    out = x.new_empty(count, 2, rows, columns)
    _product[count * rows, tiles_of(columns, ROW_PART)](x, y, out, n, m, k, p, rows, ROW_PART)
    return out


def kronecker_gradients(cotangent: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """By x and by y; the cotangent is ``(count, 2, n * k + more, m * p)``."""
    cotangent, x, y = cotangent.contiguous(), x.contiguous(), y.contiguous()
    (count, _, n, m), (k, p), rows = x.shape, y.shape[2:], cotangent.shape[2]
    by_x, by_y = torch.empty_like(x), torch.empty_like(y)
    sizes = {"wide": tl.float64 if x.dtype == torch.float64 else tl.float32}
    across = {"down": _block(m), "along": _block(p)}
    _by_first[count * n, tiles_of(m, across["down"])](cotangent, y, by_x, n, m, k, p, rows, **across, **sizes)
    _by_second[count * k, tiles_of(p, across["along"])](cotangent, x, by_y, n, m, k, p, rows, **across, **sizes)
    return by_x, by_y


def _block(size: int) -> int:
    return max(8, min(32, power_of_two(size)))


@triton.jit
def _product(x, y, out, n, m, k, p, rows, block: tl.constexpr):
    """A row, ``x[i // k, :]`` times ``y[i % k, :]``."""
    count, i = (tl.program_id(0) // rows).to(tl.int64), tl.program_id(0) % rows
    j = tl.program_id(1) * block + tl.arange(0, block)
    mask = (j < m * p) & (i < n * k)
    left, right = x + count * 2 * n * m + (i // k) * m + j // p, y + count * 2 * k * p + (i % k) * p + j % p
    a, b = tl.load(left, mask, 0.0), tl.load(left + n * m, mask, 0.0)
    c, d = tl.load(right, mask, 0.0), tl.load(right + k * p, mask, 0.0)
    target = out + (count * 2 * rows + i) * m * p + j
    tl.store(target, a * c - b * d, j < m * p)
    tl.store(target + rows * m * p, a * d + b * c, j < m * p)


@triton.jit
def _by_first(
    cotangent, y, out, n, m, k, p, rows,
    down: tl.constexpr, along: tl.constexpr, wide: tl.constexpr,
):  # fmt: skip
    """Some entries of a row of x: sums over all entries of y."""
    count, i = (tl.program_id(0) // n).to(tl.int64), tl.program_id(0) % n
    j, q = tl.program_id(1) * down + tl.arange(0, down), tl.arange(0, along)
    real, imaginary = tl.zeros((down,), dtype=wide), tl.zeros((down,), dtype=wide)
    for row in range(k):
        z = cotangent + (count * 2 * rows + i * k + row) * m * p + j[:, None] * p + q[None, :]
        w = y + (count * 2 * k + row) * p + q
        for start in range(0, p, along):
            inside = start + q < p
            mask = (j[:, None] < m) & inside[None, :]
            g, h = tl.load(z + start, mask, 0.0).to(wide), tl.load(z + start + rows * m * p, mask, 0.0).to(wide)
            c = tl.load(w + start, inside, 0.0).to(wide)[None, :]
            d = tl.load(w + start + k * p, inside, 0.0).to(wide)[None, :]
            real += tl.sum(g * c + h * d, 1)
            imaginary += tl.sum(h * c - g * d, 1)
    target = out + (count * 2 * n + i) * m + j
    tl.store(target, real, j < m)
    tl.store(target + n * m, imaginary, j < m)


@triton.jit
def _by_second(
    cotangent, x, out, n, m, k, p, rows,
    down: tl.constexpr, along: tl.constexpr, wide: tl.constexpr,
):  # fmt: skip
    """Some entries of a row of y: sums over all entries of x."""
    count, i = (tl.program_id(0) // k).to(tl.int64), tl.program_id(0) % k
    j, q = tl.program_id(1) * along + tl.arange(0, along), tl.arange(0, down)
    real, imaginary = tl.zeros((along,), dtype=wide), tl.zeros((along,), dtype=wide)
    for row in range(n):
        z = cotangent + (count * 2 * rows + row * k + i) * m * p + q[:, None] * p + j[None, :]
        w = x + (count * 2 * n + row) * m + q
        for start in range(0, m, down):
            inside = start + q < m
            mask = inside[:, None] & (j[None, :] < p)
            g = tl.load(z + start * p, mask, 0.0).to(wide)
            h = tl.load(z + start * p + rows * m * p, mask, 0.0).to(wide)
            c = tl.load(w + start, inside, 0.0).to(wide)[:, None]
            d = tl.load(w + start + n * m, inside, 0.0).to(wide)[:, None]
            real += tl.sum(g * c + h * d, 0)
            imaginary += tl.sum(h * c - g * d, 0)
    target = out + (count * 2 * k + i) * p + j
    tl.store(target, real, j < p)
    tl.store(target + k * p, imaginary, j < p)
