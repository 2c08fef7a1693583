"""A large product of two thin matrices on a GPU: filters of all frequencies from their few taps."""

import triton
import triton.language as tl
from torch import Tensor

from eclose.ops.tiles import power_of_two, tiles_of
from eclose.ops.xd.kernels.frequency_product import precision_for

BLOCK = 64


def thin_product(x: Tensor, y: Tensor) -> Tensor:  # (n, k), (m, k)
    """``x y^T``, ``(n, m)``."""
    x, y = x.contiguous(), y.contiguous()
    rows, inner = x.shape
    columns = len(y)
    out = x.new_empty(rows, columns)
    _product[(tiles_of(columns, BLOCK), tiles_of(rows, BLOCK))](
        x, y, out, rows, columns, inner, precision_for(x), BLOCK, max(16, power_of_two(inner))
    )
    return out


@triton.jit
def _product(x, y, out, rows, columns, inner, precision: tl.constexpr, block: tl.constexpr, block_inner: tl.constexpr):
    """One tile, which is written once; nothing else takes time."""
    i = (tl.program_id(1) * block + tl.arange(0, block)).to(tl.int64)
    j = (tl.program_id(0) * block + tl.arange(0, block)).to(tl.int64)
    k = tl.arange(0, block_inner)
    left = tl.load(x + i[:, None] * inner + k[None, :], (i[:, None] < rows) & (k[None, :] < inner), 0.0)
    right = tl.load(y + j[:, None] * inner + k[None, :], (j[:, None] < columns) & (k[None, :] < inner), 0.0)
    tile = tl.dot(left, tl.trans(right), input_precision=precision)
    target = out + i[:, None] * columns + j[None, :]
    tl.store(target, tile, (i[:, None] < rows) & (j[None, :] < columns))
