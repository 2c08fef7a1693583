"""Products of many small complex matrices on a GPU: each part is read once, where four real products read it twice."""

import torch
import triton
import triton.language as tl
from torch import Tensor


def complex_bmm(x: Tensor, y: Tensor, *, conjugate: bool = False) -> Tensor:  # (2, batch, n, m), (2, batch, m, p)
    """``x y`` or ``x conj(y)``, ``(2, batch, n, p)``; any strides."""
    _, batch, rows, inner = x.shape
    columns = y.shape[-1]
    out = x.new_empty(2, batch, rows, columns)
    # Tiles of 64 x 64 are fastest where both factors are read along their rows, else those of 32 x 64.
    along = x.stride(-1) == 1 and y.stride(-2) == 1
    block_rows, block_columns = min(_block(rows), 64 if along else 32), _block(columns)
    tiles = triton.cdiv(rows, block_rows) * triton.cdiv(columns, block_columns)
    _kernel[(batch, tiles)](
        x, y, out, rows, columns, inner, *x.stride(), *y.stride(), *out.stride(),
        conjugate, precision_for(x), block_rows, block_columns, 32,
        num_warps=4, num_stages=3,
    )  # fmt: skip
    return out


def precision_for(x: Tensor) -> str:
    """Of the products of a kernel: as torch may take for its own."""
    matmul = torch.backends.cuda.matmul
    # The newer of torch's two switches, where it is there; the older one must not be read once this one is set.
    allowed = matmul.fp32_precision == "tf32" if hasattr(matmul, "fp32_precision") else matmul.allow_tf32
    return "tf32" if x.dtype != torch.float32 or allowed else "tf32x3"


def _block(size: int) -> int:
    return 16 if size <= 16 else 32 if size <= 32 else 64


@triton.jit
def _kernel(
    x, y, out, rows, columns, inner,
    x_part, x_batch, x_row, x_inner,
    y_part, y_batch, y_inner, y_column,
    out_part, out_batch, out_row, out_column,
    conjugate: tl.constexpr, precision: tl.constexpr,
    block_rows: tl.constexpr, block_columns: tl.constexpr, block_inner: tl.constexpr,
):  # fmt: skip
    """One tile of one product: real and imaginary part together."""
    across = tl.cdiv(columns, block_columns)
    i = (tl.program_id(1) // across) * block_rows + tl.arange(0, block_rows)
    j = (tl.program_id(1) % across) * block_columns + tl.arange(0, block_columns)
    k = tl.arange(0, block_inner)
    batch = tl.program_id(0).to(tl.int64)
    left = x + batch * x_batch + i[:, None] * x_row + k[None, :] * x_inner
    right = y + batch * y_batch + k[:, None] * y_inner + j[None, :] * y_column
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
    target = out + batch * out_batch + i[:, None] * out_row + j[None, :] * out_column
    mask = (i[:, None] < rows) & (j[None, :] < columns)
    tl.store(target, real, mask)
    tl.store(target + out_part, imaginary, mask)
