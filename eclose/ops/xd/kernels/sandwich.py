"""The sandwich order on two axes on a GPU: the product over channels and taps, and derivatives that sum over samples.

Signals are taken as they lie: no axis has to be moved beside another first. Of sums over all samples many programs make
a part each, and these are summed up in an order that is always the same, and so is the result.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from eclose.ops.kernels import block, power_of_two, tiles_of
from eclose.ops.xd.kernels.frequency_product import precision_for

PROGRAMS = 132
"""As many as a large device has multiprocessors."""

ROWS = 64
"""As many are written at once, and may be where a factor was."""


def mix_pixels(matrix: Tensor, z: Tensor, out: Tensor) -> Tensor:
    """``out``: the matrix times every pixel of ``z``, with every second line, the imaginary part, negated.

    The matrix is ``(groups, rows, inner)``; ``z`` and ``out`` are views ``(batch, groups, high, low, lines, columns)``
    of any strides, whose rows are pairs of a channel and a tap, in either order. With up to ``ROWS`` rows they may
    share their memory.
    """
    (groups, rows, inner), (lines, columns) = matrix.shape, z.shape[4:]
    assert rows <= ROWS or out.data_ptr() != z.data_ptr()
    block_rows, block_pixels = block(rows, ROWS), block(lines * columns, 128)
    tiles = len(z) * tiles_of(lines * columns, block_pixels) * tiles_of(rows, block_rows)
    # Four warps would use instructions for which every factor has to be turned round first.
    _mixed[(tiles, groups)](
        matrix, z, out, rows, inner, lines * columns, columns, z.shape[3], out.shape[3],
        *matrix.stride(), *z.stride(), *out.stride(),
        precision_for(z), block_rows, 16, block_pixels,
        num_warps=2, num_stages=3,
    )  # fmt: skip
    return out


@triton.jit
def _offsets(index, low, high_stride, low_stride):
    """Where pairs of a high and a low index lie."""
    return (index // low) * high_stride + (index % low) * low_stride


@triton.jit
def _mixed(
    matrix, z, out, rows, inner, pixels, columns, z_lows, out_lows,
    matrix_group, matrix_row, matrix_inner,
    z_batch, z_group, z_high, z_low, z_line, z_column,
    out_batch, out_group, out_high, out_low, out_line, out_column,
    precision: tl.constexpr,
    block_rows: tl.constexpr, block_inner: tl.constexpr, block_pixels: tl.constexpr,
):  # fmt: skip
    """One tile of rows and pixels of one sample."""
    down, across = tl.cdiv(rows, block_rows), tl.cdiv(pixels, block_pixels)
    tile, group = tl.program_id(0), tl.program_id(1)
    i = (tile % down) * block_rows + tl.arange(0, block_rows)
    j = (tile // down % across) * block_pixels + tl.arange(0, block_pixels)
    k = tl.arange(0, block_inner)
    batch = (tile // down // across).to(tl.int64)
    left = matrix + group * matrix_group + i[:, None] * matrix_row
    right = z + batch * z_batch + group * z_group + _offsets(j, columns, z_line, z_column)[None, :]
    total = tl.zeros((block_rows, block_pixels), dtype=tl.float32)
    for start in range(0, inner, block_inner):
        here = start + k
        a = tl.load(left + here[None, :] * matrix_inner, (i[:, None] < rows) & (here[None, :] < inner), 0.0)
        places = _offsets(here, z_lows, z_high, z_low)[:, None]
        b = tl.load(right + places, (here[:, None] < inner) & (j[None, :] < pixels), 0.0)
        total = tl.dot(a, b, total, input_precision=precision)
    signs = 1 - 2 * (j // columns % 2)
    target = out + batch * out_batch + group * out_group
    target += _offsets(i, out_lows, out_high, out_low)[:, None] + _offsets(j, columns, out_line, out_column)[None, :]
    tl.store(target, total * signs[None, :], (i[:, None] < rows) & (j[None, :] < pixels))


def summed_products(y: Tensor, z: Tensor) -> Tensor:  # (batch, rows, columns), (batch, others, columns)
    """``sum_b y[b] z[b]^T``, ``(rows, others)``; any strides."""
    batch, rows, columns = y.shape
    others, along = z.shape[1], y.stride(2) == z.stride(2) == 1
    # Tiles of 32 rows are for other instructions: those for 64 need factors whose columns lie side by side.
    block_rows, block_others, block_columns = block(rows, 64 if along else 32), block(others, 64), 64 if along else 32
    steps = batch * tiles_of(columns, block_columns)
    tiles = tiles_of(rows, block_rows) * tiles_of(others, block_others)
    parts, each = _parts(steps, tiles, PROGRAMS if along else 2 * PROGRAMS)
    partial_sums = z.new_empty(parts, rows, others, dtype=torch.float32)
    _products[(tiles, parts)](
        y, z, partial_sums, rows, others, columns, steps, each, *y.stride(), *z.stride(),
        precision_for(z), block_rows, block_others, block_columns,
        num_warps=4, num_stages=3,
    )  # fmt: skip
    return _sum(partial_sums).to(y.dtype)


def mixing_slope(x: Tensor, shift: Tensor, cotangent: Tensor, groups: int) -> Tensor:
    """By the matrix ``(groups, c_out * kernel_1, kernel_2 * c_in)`` that mixes channels and taps.

    From the signal ``(batch, c_in, size_1, size_2)``, which is shifted once more by ``(2, kernel_2, out_2, size_2)``,
    and the derivative by what was mixed, ``(batch, c_out, size_1 * 2, kernel_1, out_2)``, imaginary parts negated.
    """
    (batch, c_in, lines, size), (_, taps, out, _) = x.shape, shift.shape
    c_in, rows, others = c_in // groups, cotangent.shape[1] // groups * cotangent.shape[3], cotangent.shape[3]
    block_lines, block_out = min(4, power_of_two(lines)), block(out, 32)
    down, across = tiles_of(lines, block_lines), tiles_of(out, block_out)
    tiles, steps = taps * tiles_of(c_in, 16) * tiles_of(rows, 64), 2 * batch * down * across
    parts, each = _parts(steps, tiles * groups, 2 * PROGRAMS)
    partial_sums = x.new_empty(parts, groups, rows, taps * c_in, dtype=torch.float32)
    _mixing_slope[(tiles, parts, groups)](
        x, shift, cotangent, partial_sums, c_in, rows, others, taps, lines, size, out, steps, each,
        precision_for(x), 64, 16, block_lines, block_out, block(size, 32),
        num_warps=4, num_stages=3,
    )  # fmt: skip
    return _sum(partial_sums).to(x.dtype)


def _parts(steps: int, tiles: int, programs: int) -> tuple[int, int]:
    """How many programs share the steps of a tile, and how many steps are for each."""
    each = tiles_of(steps, max(1, programs // tiles))
    return tiles_of(steps, each), each


def _sum(parts: Tensor) -> Tensor:
    """Over the first dimension."""
    out = parts.new_empty(parts.shape[1:])
    _summed[(tiles_of(out.numel(), 64),)](parts, out, len(parts), out.numel(), 32, 64, num_warps=4)
    return out


@triton.jit
def _summed(parts, out, count, numbers, block_parts: tl.constexpr, block_numbers: tl.constexpr):
    """Some numbers of all parts."""
    j = tl.program_id(0) * block_numbers + tl.arange(0, block_numbers)
    total = tl.zeros((block_parts, block_numbers), dtype=tl.float32)
    for start in range(0, count, block_parts):
        i = start + tl.arange(0, block_parts)
        mask = (i[:, None] < count) & (j[None, :] < numbers)
        total += tl.load(parts + i[:, None].to(tl.int64) * numbers + j[None, :], mask, 0.0)
    tl.store(out + j, tl.sum(total, 0), j < numbers)


@triton.jit
def _products(
    y, z, out, rows, others, columns, steps, each,
    y_batch, y_row, y_column, z_batch, z_row, z_column,
    precision: tl.constexpr,
    block_rows: tl.constexpr, block_others: tl.constexpr, block_columns: tl.constexpr,
):  # fmt: skip
    """One tile, over ``each`` blocks of columns."""
    down, across, part = tl.cdiv(rows, block_rows), tl.cdiv(columns, block_columns), tl.program_id(1)
    i = (tl.program_id(0) % down) * block_rows + tl.arange(0, block_rows)
    j = (tl.program_id(0) // down) * block_others + tl.arange(0, block_others)
    total = tl.zeros((block_rows, block_others), dtype=tl.float32)
    for step in range(part * each, min(steps, (part + 1) * each)):
        k = (step % across) * block_columns + tl.arange(0, block_columns)
        batch = (step // across).to(tl.int64)
        left = y + batch * y_batch + i[:, None] * y_row + k[None, :].to(tl.int64) * y_column
        right = z + batch * z_batch + j[None, :] * z_row + k[:, None].to(tl.int64) * z_column
        a = tl.load(left, (i[:, None] < rows) & (k[None, :] < columns), 0.0)
        b = tl.load(right, (j[None, :] < others) & (k[:, None] < columns), 0.0)
        total = tl.dot(a, b, total, input_precision=precision)
    target = out + (part * rows + i)[:, None] * others + j[None, :]
    tl.store(target, total, (i[:, None] < rows) & (j[None, :] < others))


@triton.jit
def _mixing_slope(
    x, shift, cotangent, out, c_in, rows, others, taps, lines, size, columns, steps, each,
    precision: tl.constexpr,
    block_rows: tl.constexpr, block_channels: tl.constexpr, block_lines: tl.constexpr,
    block_columns: tl.constexpr, block_size: tl.constexpr,
):  # fmt: skip
    """Some rows, one tap of the second axis and some channels, over ``each`` tiles of lines and columns of a part."""
    tile, part, group, groups = tl.program_id(0), tl.program_id(1), tl.program_id(2), tl.num_programs(2)
    down, across, deep = tl.cdiv(lines, block_lines), tl.cdiv(columns, block_columns), tl.cdiv(c_in, block_channels)
    tap, first = tile % taps, tile // taps % deep * block_channels
    r = tile // taps // deep * block_rows + tl.arange(0, block_rows)
    m = tl.arange(0, block_channels * block_lines)
    n = tl.arange(0, block_lines * block_columns)
    v = tl.arange(0, block_size)
    i = first + m // block_lines
    row = ((r // others) * lines * 2 * others + r % others) * columns
    total = tl.zeros((block_rows, block_channels), dtype=tl.float32)
    for step in range(part * each, min(steps, (part + 1) * each)):
        imaginary, q0 = step % 2, step // 2 % across * block_columns
        u0, batch = step // 2 // across % down * block_lines, (step // 2 // across // down).to(tl.int64)
        u, q = u0 + m % block_lines, q0 + tl.arange(0, block_columns)
        signal = x + ((batch * groups + group) * c_in + i).to(tl.int64)[:, None] * lines * size + u[:, None] * size
        matrix = shift + ((imaginary * taps + tap) * columns + q)[:, None] * size
        z = tl.zeros((block_channels * block_lines, block_columns), dtype=tl.float32)
        for start in range(0, size, block_size):
            here = start + v[None, :]
            a = tl.load(signal + here, ((i < c_in) & (u < lines))[:, None] & (here < size), 0.0)
            b = tl.load(matrix + here, (q[:, None] < columns) & (here < size), 0.0)
            z = tl.dot(a, tl.trans(b), z, input_precision=precision)
        z = tl.reshape(z * (1 - 2 * imaginary), (block_channels, block_lines * block_columns))
        line, column = u0 + n // block_columns, q0 + n % block_columns
        place = (batch * groups + group) * rows * lines * 2 * columns
        places = place + row[:, None] + ((line * 2 + imaginary) * others * columns + column)[None, :]
        mask = (r[:, None] < rows) & ((line < lines) & (column < columns))[None, :]
        slope = tl.load(cotangent + places, mask, 0.0)
        total = tl.dot(slope, tl.trans(z).to(slope.dtype), total, input_precision=precision)
    c = first + tl.arange(0, block_channels)
    target = out + (part * groups + group) * rows * taps * c_in + r[:, None] * (taps * c_in) + tap * c_in + c[None, :]
    tl.store(target, total, (r[:, None] < rows) & (c[None, :] < c_in))
