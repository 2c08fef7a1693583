"""Products for all frequencies on a GPU: of many small complex matrices, and of two thin ones.

Of complex matrices each part is read once, where four real products read it twice.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from eclose.ops.kernels import block, power_of_two, tiles_of

TILE = 64
"""Rows and columns of a tile; half as many rows where a factor is read across its rows."""

THIN_TILE = 64
"""Of the product of thin matrices: filters of all frequencies from their few taps."""


def complex_bmm(x: Tensor, y: Tensor, *, conjugate: bool = False) -> Tensor:  # (2, batch, n, m), (2, batch, m, p)
    """``x y`` or ``x conj(y)``, ``(2, batch, n, p)``; any strides."""
    _, batch, rows, inner = x.shape
    columns = y.shape[-1]
    out = x.new_empty(2, batch, rows, columns)
    along = x.stride(-1) == 1 and y.stride(-2) == 1
    block_rows, block_columns = block(rows, TILE if along else TILE // 2), block(columns, TILE)
    tiles = tiles_of(rows, block_rows) * tiles_of(columns, block_columns)
    # Tiles of one product follow each other, so that what they share is still in the cache. There is one axis of
    # programs: others have no room for the frequencies of large grids.
    _product[(batch * tiles,)](
        x, y, out, tiles, rows, columns, inner, *x.stride(), *y.stride(), *out.stride()[:-1],
        conjugate, precision_for(x), block_rows, block_columns, 32, num_warps=4, num_stages=2 if along else 3,
    )  # fmt: skip
    return out


def three_products(x: Tensor, cotangent: Tensor, response: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``x response^T`` and the derivatives of its inner product with a cotangent, by x and by the response.

    ``(2, batch, rows, c_in)``, ``(2, batch, rows, c_out)`` and ``(2, batch, c_out, c_in)``, in one launch: what the
    products of one batch share is read once.
    """
    x, cotangent, response = x.contiguous(), cotangent.contiguous(), response.contiguous()
    _, batch, rows, c_in = x.shape
    c_out = response.shape[2]
    y, by_x, by_response = torch.empty_like(cotangent), torch.empty_like(x), torch.empty_like(response)
    of_rows, of_out, of_in = (block(size, TILE) for size in (rows, c_out, c_in))
    half_of_rows, half_of_out = (block(size, TILE // 2) for size in (rows, c_out))
    tiles = tiles_of(rows, of_rows) * tiles_of(c_out, of_out)
    tiles_by_x = tiles_of(rows, half_of_rows) * tiles_of(c_in, of_in)
    tiles_by_response = tiles_of(c_out, half_of_out) * tiles_of(c_in, of_in)
    in_all = tiles + tiles_by_x + tiles_by_response
    _three_products[(batch * in_all,)](
        x, cotangent, response, y, by_x, by_response, rows, c_out, c_in,
        x.stride(0), y.stride(0), response.stride(0), tiles, tiles_by_x, in_all,
        precision_for(x), of_rows, half_of_rows, of_out, half_of_out, of_in, 16, num_warps=4, num_stages=3,
    )  # fmt: skip
    return y, by_x, by_response


def precision_for(x: Tensor) -> str:
    """Of the products of a kernel: as torch may take for its own."""
    matmul = torch.backends.cuda.matmul
    # The newer of torch's two switches, where it is there; the older one must not be read once this one is set.
    allowed = matmul.fp32_precision == "tf32" if hasattr(matmul, "fp32_precision") else matmul.allow_tf32
    return "tf32" if x.dtype != torch.float32 or allowed else "tf32x3"


@triton.jit
def _product(
    x, y, out, tiles, rows, columns, inner,
    x_part, x_batch, x_row, x_inner,
    y_part, y_batch, y_inner, y_column,
    out_part, out_batch, out_row,
    conjugate: tl.constexpr, precision: tl.constexpr,
    block_rows: tl.constexpr, block_columns: tl.constexpr, block_inner: tl.constexpr,
):  # fmt: skip
    """One tile of one product."""
    batch, tile = (tl.program_id(0) // tiles).to(tl.int64), tl.program_id(0) % tiles
    _tile(
        x + batch * x_batch, y + batch * y_batch, out + batch * out_batch, tile, rows, columns, inner,
        x_part, x_row, x_inner, y_part, y_inner, y_column, out_part, out_row,
        conjugate, precision, block_rows, block_columns, block_inner,
    )  # fmt: skip


@triton.jit
def _three_products(
    x, cotangent, response, y, by_x, by_response, rows, c_out, c_in,
    x_part, y_part, response_part, tiles, tiles_by_x, in_all,
    precision: tl.constexpr, of_rows: tl.constexpr, half_of_rows: tl.constexpr,
    of_out: tl.constexpr, half_of_out: tl.constexpr, of_in: tl.constexpr, block_inner: tl.constexpr,
):  # fmt: skip
    """One tile of one of three products."""
    batch, tile = (tl.program_id(0) // in_all).to(tl.int64), tl.program_id(0) % in_all
    at_x, at_y, at_response = batch * rows * c_in, batch * rows * c_out, batch * c_out * c_in
    if tile < tiles:  # y = x response^T
        _tile(
            x + at_x, response + at_response, y + at_y, tile, rows, c_out, c_in,
            x_part, c_in, 1, response_part, 1, c_in, y_part, c_out,
            False, precision, of_rows, of_out, block_inner,
        )  # fmt: skip
    elif tile < tiles + tiles_by_x:  # by x: cotangent conj(response)
        _tile(
            cotangent + at_y, response + at_response, by_x + at_x, tile - tiles, rows, c_in, c_out,
            y_part, c_out, 1, response_part, c_in, 1, x_part, c_in,
            True, precision, half_of_rows, of_in, block_inner,
        )  # fmt: skip
    else:  # by the response: cotangent^T conj(x)
        _tile(
            cotangent + at_y, x + at_x, by_response + at_response, tile - tiles - tiles_by_x, c_out, c_in, rows,
            y_part, 1, c_out, x_part, c_in, 1, response_part, c_in,
            True, precision, half_of_out, of_in, block_inner,
        )  # fmt: skip


@triton.jit
def _tile(
    x, y, out, tile, rows, columns, inner,
    x_part, x_row, x_inner, y_part, y_inner, y_column, out_part, out_row,
    conjugate: tl.constexpr, precision: tl.constexpr,
    block_rows: tl.constexpr, block_columns: tl.constexpr, block_inner: tl.constexpr,
):  # fmt: skip
    """Real and imaginary part together."""
    across = tl.cdiv(columns, block_columns)
    i = (tile // across) * block_rows + tl.arange(0, block_rows)
    j = (tile % across) * block_columns + tl.arange(0, block_columns)
    k = tl.arange(0, block_inner)
    left = x + i[:, None] * x_row + k[None, :] * x_inner
    right = y + k[:, None] * y_inner + j[None, :] * y_column
    real = tl.zeros((block_rows, block_columns), dtype=tl.float32)
    imaginary = tl.zeros((block_rows, block_columns), dtype=tl.float32)
    for start in range(0, inner, block_inner):
        here = start + k
        left_mask = (i[:, None] < rows) & (here[None, :] < inner)
        right_mask = (here[:, None] < inner) & (j[None, :] < columns)
        a, b = tl.load(left, left_mask, 0.0), tl.load(left + x_part, left_mask, 0.0)
        c, d = tl.load(right, right_mask, 0.0), tl.load(right + y_part, right_mask, 0.0)
        real = tl.dot(a, c, real, input_precision=precision)
        imaginary = tl.dot(b, c, imaginary, input_precision=precision)
        if conjugate:
            a = -a
        else:
            b = -b
        real = tl.dot(b, d, real, input_precision=precision)
        imaginary = tl.dot(a, d, imaginary, input_precision=precision)
        left += block_inner * x_inner
        right += block_inner * y_inner
    target = out + i[:, None] * out_row + j[None, :]
    mask = (i[:, None] < rows) & (j[None, :] < columns)
    tl.store(target, real, mask)
    tl.store(target + out_part, imaginary, mask)


def thin_product(x: Tensor, y: Tensor) -> Tensor:  # (n, k), (m, k)
    """``x y^T``, ``(n, m)``."""
    x, y = x.contiguous(), y.contiguous()
    rows, inner = x.shape
    columns = len(y)
    out = x.new_empty(rows, columns)
    _thin_product[(tiles_of(columns, THIN_TILE), tiles_of(rows, THIN_TILE))](
        x, y, out, rows, columns, inner, precision_for(x), THIN_TILE, max(16, power_of_two(inner))
    )
    return out


@triton.jit
def _thin_product(
    x, y, out, rows, columns, inner, precision: tl.constexpr, block: tl.constexpr, block_inner: tl.constexpr
):
    """One tile, which is written once; nothing else takes time."""
    i = (tl.program_id(1) * block + tl.arange(0, block)).to(tl.int64)
    j = (tl.program_id(0) * block + tl.arange(0, block)).to(tl.int64)
    k = tl.arange(0, block_inner)
    left = tl.load(x + i[:, None] * inner + k[None, :], (i[:, None] < rows) & (k[None, :] < inner), 0.0)
    right = tl.load(y + j[:, None] * inner + k[None, :], (j[:, None] < columns) & (k[None, :] < inner), 0.0)
    tile = tl.dot(left, tl.trans(right), input_precision=precision)
    target = out + i[:, None] * columns + j[None, :]
    tl.store(target, tile, (i[:, None] < rows) & (j[None, :] < columns))
