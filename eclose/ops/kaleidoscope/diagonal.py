"""Diagonal matrices, absorbed on either side: depth unchanged, exactly.

``diag(z) B`` scales the rows of the stage applied last, ``B diag(z)`` the columns of the stage applied first.
"""

import torch
from torch import Tensor

from eclose.ops.kaleidoscope import butterfly, pairs
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
    factor = z.new_zeros(*batch, *matrix.entries.shape[-3:])
    factor[..., 0] = 1
    stages = butterfly.views(factor.select(-3, block), matrix.radices)
    stage = stages[-1] if rows else stages[0]  # (*batch, left, out, in, right, 2); right or left is 1
    left, out, _, right, _ = stage.shape[-5:]
    shape = (left, out, 1, right, 2) if rows else (left, 1, out, right, 2)
    stage.copy_(z.reshape(*z.shape[:-2], *shape).expand_as(stage))
    return KMatrix(pairs.multiply(matrix.entries, factor), matrix.radices, matrix.increasing)
