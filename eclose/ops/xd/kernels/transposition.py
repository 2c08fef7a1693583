"""A matrix that lies by rows, laid out by columns, on a GPU: tiles are turned on the way, so that memory sees rows."""

import triton
import triton.language as tl
from torch import Tensor

from eclose.ops.kernels import tiles_of

TURNED_TILE = 32


def by_columns(x: Tensor) -> Tensor:  # (n, m), a row in one piece
    """The same matrix, a column in one piece."""
    rows, columns = x.shape
    out = x.new_empty(columns, rows)
    # Rows, which are many, along the first axis of programs: the second has room for 65535.
    _turned[(tiles_of(rows, TURNED_TILE), tiles_of(columns, TURNED_TILE))](x, out, rows, columns, TURNED_TILE)
    return out.mT


@triton.jit
def _turned(x, out, rows, columns, block: tl.constexpr):
    """One tile."""
    i = (tl.program_id(0) * block + tl.arange(0, block)).to(tl.int64)
    j = (tl.program_id(1) * block + tl.arange(0, block)).to(tl.int64)
    tile = tl.load(x + i[:, None] * columns + j[None, :], (i[:, None] < rows) & (j[None, :] < columns))
    tl.store(out + j[:, None] * rows + i[None, :], tl.trans(tile), (j[:, None] < columns) & (i[None, :] < rows))
