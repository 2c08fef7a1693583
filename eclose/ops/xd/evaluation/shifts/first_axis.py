"""A complex matrix along the first axis, where only the real part is wanted, and the derivatives of that."""

import torch
from torch import Tensor


def real_part(matrix: Tensor, z: Tensor) -> Tensor:  # (2, out, size), (2, rows, size, columns)
    """``Real(A z)``, ``(rows, out, columns)``."""
    real, imaginary = matrix.unsqueeze(1).expand(-1, z.shape[1], -1, -1)
    return torch.bmm(real, z[0]).baddbmm_(imaginary, z[1], alpha=-1)


def by_signal(matrix: Tensor, cotangent: Tensor) -> Tensor:  # (2, out, size), (rows, out, columns)
    """``(2, rows, size, columns)``."""
    rows, _, columns = cotangent.shape
    found = cotangent.new_empty(2, rows, matrix.shape[2], columns)
    for part, target in zip((matrix[0], -matrix[1]), found, strict=True):
        torch.bmm(part.mT.expand(rows, -1, -1), cotangent, out=target)
    return found


def by_matrix(cotangent: Tensor, z: Tensor) -> Tensor:  # (rows, out, columns), (2, rows, size, columns)
    """``(2, out, size)``."""
    found = z.new_empty(2, *cotangent.shape[:2], z.shape[2])
    for part, target in zip(z, found, strict=True):
        torch.bmm(cotangent, part.mT, out=target)
    slope = found.sum(1)
    slope[1].neg_()
    return slope
