"""The product over channels and taps on a GPU, on signals as they lie: no axis has to be moved beside another first."""

import triton
import triton.language as tl
from torch import Tensor

from eclose.ops.tiles import block, tiles_of
from eclose.ops.xd.kernels.frequency_product import precision_for

ROWS = 64
"""As many are written at once, and may be where a factor was."""


def mixed(matrix: Tensor, z: Tensor, out: Tensor) -> Tensor:
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
    found = tl.zeros((block_rows, block_pixels), dtype=tl.float32)
    for start in range(0, inner, block_inner):
        here = start + k
        a = tl.load(left + here[None, :] * matrix_inner, (i[:, None] < rows) & (here[None, :] < inner), 0.0)
        places = _offsets(here, z_lows, z_high, z_low)[:, None]
        b = tl.load(right + places, (here[:, None] < inner) & (j[None, :] < pixels), 0.0)
        found = tl.dot(a, b, found, input_precision=precision)
    signs = 1 - 2 * (j // columns % 2)
    target = out + batch * out_batch + group * out_group
    target += _offsets(i, out_lows, out_high, out_low)[:, None] + _offsets(j, columns, out_line, out_column)[None, :]
    tl.store(target, found * signs[None, :], (i[:, None] < rows) & (j[None, :] < pixels))
