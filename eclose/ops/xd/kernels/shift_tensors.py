"""Shift tensors and their derivatives on a GPU: what lies between them and K, L and M is never written to memory.

For several axes, where real and imaginary part count; on one axis the products of torch are large ones.
"""

import triton
import triton.language as tl
from torch import Tensor

from eclose.ops.kernels import block, tiles_of

PRECISION = "tf32x3"
"""That of float32, whatever torch may take for its own products: all that an operation does depends on these.

It needs many registers; tiles are as large as these allow.
"""


def shift_tensors_on_gpu(outer: Tensor, filters: Tensor, inner: Tensor) -> Tensor:
    """``(.., 2, kernel, out, size)`` from ``(.., 2, n, out)``, ``(.., 2, n, kernel)`` and ``(.., 2, n, size)``."""
    (n, out), taps, size = outer.shape[-2:], filters.shape[-1], inner.shape[-1]
    tensors = outer.new_empty(*outer.shape[:-3], 2, taps, out, size)
    rows, columns = block(out, 64), block(size, 32)
    _shifts[(tiles_of(out, rows) * tiles_of(size, columns), taps, outer.shape[:-3].numel())](
        outer.contiguous(), filters.contiguous(), inner.contiguous(), tensors, n, taps, out, size,
        PRECISION, rows, columns, 16,
        num_warps=4, num_stages=2,
    )  # fmt: skip
    return tensors


def shift_tensor_gradients(
    outer: Tensor, filters: Tensor, inner: Tensor, cotangent: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Derivatives by the adjoint of K, by L and by M."""
    count, (n, out), taps, size = outer.shape[:-3].numel(), outer.shape[-2:], filters.shape[-1], inner.shape[-1]
    given = [tensor.contiguous() for tensor in (outer, filters, inner, cotangent)]
    by_outer, by_inner = (matrix.new_empty(matrix.shape) for matrix in (outer, inner))
    rows, columns = block(out, 64), block(size, 32)
    by_filters = filters.new_empty(tiles_of(out, rows), *filters.shape)
    _by_outer[(tiles_of(n, 16), len(by_filters), count)](
        *given, by_outer, by_filters, n, taps, out, size, PRECISION, rows, columns, 16, num_warps=4, num_stages=2
    )
    rows = block(out, 32)
    _by_inner[(tiles_of(n, 16), tiles_of(size, columns), count)](
        *given, by_inner, n, taps, out, size, PRECISION, rows, columns, 16, num_warps=4, num_stages=2
    )
    return by_outer, by_filters.sum(0), by_inner


@triton.jit
def _pair(start, rows, columns, i, j):
    """Both parts of a tile of a matrix ``(2, rows, columns)``."""
    places, mask = i[:, None] * columns + j[None, :], (i[:, None] < rows) & (j[None, :] < columns)
    return tl.load(start + places, mask, 0.0), tl.load(start + rows * columns + places, mask, 0.0)


@triton.jit
def _pair_turned(start, rows, columns, i, j):
    """The same of its transpose."""
    places, mask = j[None, :] * columns + i[:, None], (j[None, :] < rows) & (i[:, None] < columns)
    return tl.load(start + places, mask, 0.0), tl.load(start + rows * columns + places, mask, 0.0)


@triton.jit
def _tap(filters, n, taps, tap, f):
    """Both parts of a column of L."""
    real = tl.load(filters + f * taps + tap, f < n, 0.0)
    return real, tl.load(filters + (n + f) * taps + tap, f < n, 0.0)


@triton.jit
def _shifts(
    outer, filters, inner, tensors, n, taps, out, size,
    precision: tl.constexpr,
    block_out: tl.constexpr, block_size: tl.constexpr, block_n: tl.constexpr,
):  # fmt: skip
    """A tile of one tap."""
    across = tl.cdiv(size, block_size)
    tap, item = tl.program_id(1), tl.program_id(2).to(tl.int64)
    p = (tl.program_id(0) // across) * block_out + tl.arange(0, block_out)
    u = (tl.program_id(0) % across) * block_size + tl.arange(0, block_size)
    outer, filters, inner = outer + item * 2 * out * n, filters + item * 2 * n * taps, inner + item * 2 * n * size
    one = tl.zeros((block_out, block_size), dtype=tl.float32)
    two = tl.zeros((block_out, block_size), dtype=tl.float32)
    for start in range(0, n, block_n):
        f = start + tl.arange(0, block_n)
        a, b = _tap(filters, n, taps, tap, f)
        c, d = _pair_turned(outer, n, out, p, f)
        e, g = _pair(inner, n, size, f, u)
        left, right = a[None, :] * c + b[None, :] * d, b[None, :] * c - a[None, :] * d
        one = tl.dot(left, e, one, input_precision=precision)
        one = tl.dot(-right, g, one, input_precision=precision)
        two = tl.dot(left, g, two, input_precision=precision)
        two = tl.dot(right, e, two, input_precision=precision)
    target = tensors + (item * 2 * taps + tap) * out * size + p[:, None] * size + u[None, :]
    mask = (p[:, None] < out) & (u[None, :] < size)
    tl.store(target, one, mask)
    tl.store(target + taps * out * size, two, mask)


@triton.jit
def _by_outer(
    outer, filters, inner, cotangent, by_outer, by_filters, n, taps, out, size,
    precision: tl.constexpr,
    block_out: tl.constexpr, block_size: tl.constexpr, block_n: tl.constexpr,
):  # fmt: skip
    """A tile of the derivative by the adjoint of K, and what its columns add to the one by L."""
    item, rows = tl.program_id(2).to(tl.int64), tl.program_id(1)
    f = tl.program_id(0) * block_n + tl.arange(0, block_n)
    p = rows * block_out + tl.arange(0, block_out)
    outer, filters, inner = outer + item * 2 * out * n, filters + item * 2 * n * taps, inner + item * 2 * n * size
    cotangent += item * 2 * taps * out * size
    c, d = _pair_turned(outer, n, out, p, f)
    one = tl.zeros((block_out, block_n), dtype=tl.float32)
    two = tl.zeros((block_out, block_n), dtype=tl.float32)
    for tap in range(taps):
        by_left = tl.zeros((block_out, block_n), dtype=tl.float32)
        by_right = tl.zeros((block_out, block_n), dtype=tl.float32)
        for start in range(0, size, block_size):
            u = start + tl.arange(0, block_size)
            e, g = _pair(inner, n, size, f, u)
            places = (tap * out + p[:, None]) * size + u[None, :]
            mask = (p[:, None] < out) & (u[None, :] < size)
            slope = tl.load(cotangent + places, mask, 0.0)
            by_left = tl.dot(slope, tl.trans(e), by_left, input_precision=precision)
            by_right = tl.dot(-slope, tl.trans(g), by_right, input_precision=precision)
            slope = tl.load(cotangent + taps * out * size + places, mask, 0.0)
            by_left = tl.dot(slope, tl.trans(g), by_left, input_precision=precision)
            by_right = tl.dot(slope, tl.trans(e), by_right, input_precision=precision)
        a, b = _tap(filters, n, taps, tap, f)
        one += by_left * a[None, :] + by_right * b[None, :]
        two += by_left * b[None, :] - by_right * a[None, :]
        target = by_filters + (rows * tl.num_programs(2) + item) * 2 * n * taps + f * taps + tap
        tl.store(target, tl.sum(by_left * c - by_right * d, 0), f < n)
        tl.store(target + n * taps, tl.sum(by_left * d + by_right * c, 0), f < n)
    target = by_outer + item * 2 * out * n + f[None, :] * out + p[:, None]
    mask = (p[:, None] < out) & (f[None, :] < n)
    tl.store(target, one, mask)
    tl.store(target + out * n, two, mask)


@triton.jit
def _by_inner(
    outer, filters, inner, cotangent, by_inner, n, taps, out, size,
    precision: tl.constexpr,
    block_out: tl.constexpr, block_size: tl.constexpr, block_n: tl.constexpr,
):  # fmt: skip
    """A tile of the derivative by M."""
    item = tl.program_id(2).to(tl.int64)
    f = tl.program_id(0) * block_n + tl.arange(0, block_n)
    u = tl.program_id(1) * block_size + tl.arange(0, block_size)
    outer, filters = outer + item * 2 * out * n, filters + item * 2 * n * taps
    cotangent += item * 2 * taps * out * size
    one = tl.zeros((block_n, block_size), dtype=tl.float32)
    two = tl.zeros((block_n, block_size), dtype=tl.float32)
    for start in range(0, out, block_out):
        p = start + tl.arange(0, block_out)
        c, d = _pair(outer, n, out, f, p)
        for tap in range(taps):
            a, b = _tap(filters, n, taps, tap, f)
            left, right = a[:, None] * c + b[:, None] * d, b[:, None] * c - a[:, None] * d
            places = (tap * out + p[:, None]) * size + u[None, :]
            mask = (p[:, None] < out) & (u[None, :] < size)
            slope = tl.load(cotangent + places, mask, 0.0)
            one = tl.dot(left, slope, one, input_precision=precision)
            two = tl.dot(-right, slope, two, input_precision=precision)
            slope = tl.load(cotangent + taps * out * size + places, mask, 0.0)
            one = tl.dot(right, slope, one, input_precision=precision)
            two = tl.dot(left, slope, two, input_precision=precision)
    target = by_inner + item * 2 * n * size + f[:, None] * size + u[None, :]
    mask = (f[:, None] < n) & (u[None, :] < size)
    tl.store(target, one, mask)
    tl.store(target + n * size, two, mask)
