"""The product over channels and taps on a GPU, on signals as they lie: no axis has to be moved beside another first.

Signals are given as views ``(batch, groups, high, low, lines, columns)`` of any strides: a row of a product is a pair
of a channel and a tap, in either order, and what it is multiplied along are the pixels, lines times columns.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from eclose.ops.xd.triton_product import precision_for

PROGRAMS = 264
"""So many work at the same time: two on each multiprocessor of the largest device."""


def mixed(matrix: Tensor, z: Tensor, out: Tensor) -> Tensor:  # (groups, rows, inner), two views
    """``out``, where every pixel is the matrix times that of ``z``."""
    groups, rows, inner = matrix.shape
    pixels = z.shape[4] * z.shape[5]
    block_rows, block_inner, block_pixels = _block(rows, 64), _block(inner, 32), _block(pixels, 128)
    tiles = len(z) * triton.cdiv(pixels, block_pixels) * triton.cdiv(rows, block_rows)
    _mixed[(tiles, groups)](
        matrix, z, out, rows, inner, pixels, z.shape[5], z.shape[3], out.shape[3],
        *matrix.stride(), *z.stride(), *out.stride(),
        precision_for(z), block_rows, block_inner, block_pixels,
        num_warps=4, num_stages=3,
    )  # fmt: skip
    return out


def products(y: Tensor, z: Tensor, sign: int = 1) -> Tensor:  # two views
    """``(groups, rows of y, rows of z)``: sums over batch and pixels, times ``sign``, in single precision."""
    batch, groups, lines, columns = *z.shape[:2], *z.shape[4:]
    rows, others = y.shape[2] * y.shape[3], z.shape[2] * z.shape[3]
    block_rows, block_others, block_pixels = _block(rows, 64), _block(others, 128), _block(lines * columns, 32)
    tiles = triton.cdiv(rows, block_rows) * triton.cdiv(others, block_others)
    steps = batch * triton.cdiv(lines * columns, block_pixels)
    each = triton.cdiv(steps, max(1, PROGRAMS // (tiles * groups)))
    parts = triton.cdiv(steps, each)  # summed up one after the other, in an order that is always the same
    found = z.new_empty(parts, groups, rows, others, dtype=torch.float32)
    _products[(tiles, parts, groups)](
        y, z, found, rows, others, lines * columns, columns, steps, each, y.shape[3], z.shape[3],
        *y.stride(), *z.stride(), *found.stride(),
        sign, precision_for(z), block_rows, block_others, block_pixels,
        num_warps=4, num_stages=3,
    )  # fmt: skip
    return found[0] if parts == 1 else found.sum(0)


def _block(size: int, largest: int) -> int:
    """The smallest power of two that holds ``size``, from 16 to ``largest``."""
    return min(largest, max(16, triton.next_power_of_2(size)))


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
    found = tl.zeros((block_rows, block_pixels), dtype=tl.float32)
    for start in range(0, inner, block_inner):
        here = start + k
        a = tl.load(left + here[None, :] * matrix_inner, (i[:, None] < rows) & (here[None, :] < inner), 0.0)
        places = _offsets(here, z_lows, z_high, z_low)[:, None]
        b = tl.load(right + places, (here[:, None] < inner) & (j[None, :] < pixels), 0.0)
        found = tl.dot(a, b, found, input_precision=precision)
    target = out + batch * out_batch + group * out_group
    target += _offsets(i, out_lows, out_high, out_low)[:, None] + _offsets(j, columns, out_line, out_column)[None, :]
    tl.store(target, found, (i[:, None] < rows) & (j[None, :] < pixels))


@triton.jit
def _products(
    y, z, out, rows, others, pixels, columns, steps, each, y_lows, z_lows,
    y_batch, y_group, y_high, y_low, y_line, y_column,
    z_batch, z_group, z_high, z_low, z_line, z_column,
    out_part, out_group, out_row, out_other,
    sign, precision: tl.constexpr,
    block_rows: tl.constexpr, block_others: tl.constexpr, block_pixels: tl.constexpr,
):  # fmt: skip
    """One tile of rows of both signals, over ``each`` blocks of pixels."""
    down, across = tl.cdiv(rows, block_rows), tl.cdiv(pixels, block_pixels)
    tile, part, group = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    i = (tile % down) * block_rows + tl.arange(0, block_rows)
    j = (tile // down) * block_others + tl.arange(0, block_others)
    k = tl.arange(0, block_pixels)
    left = y + group * y_group + _offsets(i, y_lows, y_high, y_low)[:, None]
    right = z + group * z_group + _offsets(j, z_lows, z_high, z_low)[:, None]
    found = tl.zeros((block_rows, block_others), dtype=tl.float32)
    for step in range(part * each, min(steps, (part + 1) * each)):
        here = (step % across) * block_pixels + k
        batch = (step // across).to(tl.int64)
        y_places = batch * y_batch + _offsets(here, columns, y_line, y_column)[None, :]
        z_places = batch * z_batch + _offsets(here, columns, z_line, z_column)[None, :]
        a = tl.load(left + y_places, (i[:, None] < rows) & (here[None, :] < pixels), 0.0)
        b = tl.load(right + z_places, (j[:, None] < others) & (here[None, :] < pixels), 0.0)
        found = tl.dot(a, tl.trans(b), found, input_precision=precision)
    target = out + part * out_part + group * out_group + i[:, None] * out_row + j[None, :] * out_other
    tl.store(target, sign * found, (i[:, None] < rows) & (j[None, :] < others))
