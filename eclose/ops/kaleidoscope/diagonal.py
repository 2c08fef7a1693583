"""Diagonal matrices, absorbed on either side: depth unchanged, exactly.

``diag(z) B`` scales the rows of the stage applied last, ``B diag(z)`` the columns of the stage applied first.
"""

import torch
from torch import Tensor

from eclose.ops.kaleidoscope import pairs
from eclose.ops.kaleidoscope.matrix import KMatrix


def diagonal_left(z: Tensor, matrix: KMatrix) -> KMatrix:  # (*batch, n, 2)
    """``diag(z) K``."""
    return _scaled(matrix, matrix.depth - 1, z, rows=not matrix.orders[-1])


def diagonal_right(matrix: KMatrix, z: Tensor) -> KMatrix:  # (*batch, n, 2)
    """``K diag(z)``."""
    return _scaled(matrix, 0, z, rows=matrix.increasing)


def _scaled(matrix: KMatrix, block: int, z: Tensor, *, rows: bool) -> KMatrix:
    """Rows (or columns) of a block times ``z``, the block taken as it is stored: of decreasing strides."""
    batch = torch.broadcast_shapes(matrix.batch, z.shape[:-2])
    depth, entries = matrix.entries.shape[-3:-1]
    radix = matrix.radices[-1 if rows else 0]
    # Rows of the last stage, (n/r, out, in, 1, 2), or columns of the first, (1, out, in, n/r, 2).
    rates = z.unsqueeze(-2).expand(*batch, -1, radix, 2) if rows else z.unsqueeze(-3).expand(*batch, radix, -1, 2)
    stage = rates.flatten(-3, -2)
    start = block * entries + (entries - stage.shape[-2] if rows else 0)
    one = torch.stack([z.new_ones(()), z.new_zeros(())])
    before = one.expand(*batch, start, 2)
    after = one.expand(*batch, depth * entries - start - stage.shape[-2], 2)
    factor = torch.cat([before, stage, after], dim=-2).unflatten(-2, (depth, entries))
    return KMatrix(pairs.multiply(matrix.entries, factor), matrix.radices, matrix.increasing)
