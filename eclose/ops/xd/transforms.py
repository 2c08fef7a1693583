"""Complex matrices along all axes of a signal, as a few real matrix products that need no permutation.

*Analysis* takes the last axis of a signal ``(*rows, m_1, .., m_N)``, multiplies and puts the result first, so that
N steps end at ``(2, n_1, .., n_N, *rows)``: the axes have rotated into place. *Synthesis* runs backwards, from the
first axis to the last. Complex values are pairs along the first dimension, and so are those of matrices
``(2, rows, columns)``. With adjoint matrices the one is the adjoint of the other, which is all that the
derivatives need.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def analysis(x: Tensor, matrices: Sequence[Tensor]) -> list[Tensor]:
    """All intermediate signals of ``A_1 x .. x A_N`` on a real x: x first, ``(2, n_1, .., n_N, *rows)`` last."""
    found = [x]
    product = matrices[-1].flatten(0, 1) @ x.flatten(0, -2).mT
    found.append(product.view(2, -1, *x.shape[:-1]))
    for matrix in reversed(matrices[:-1]):
        z = found[-1]
        real, imaginary = z.flatten(1, -2)
        product = torch.addmm(matrix.flatten(0, 1) @ real.mT, turned(matrix).flatten(0, 1), imaginary.mT)
        found.append(product.view(2, -1, *z.shape[1:-1]))
    return found


def synthesis(z: Tensor, matrices: Sequence[Tensor]) -> list[Tensor]:
    """All intermediate signals of ``Real(A_1 x .. x A_N z)``: z first, real ``(*rows, m_1, .., m_N)`` last."""
    found = [z]
    for matrix in matrices[:-1]:
        z = found[-1]
        flat = z.flatten(0, 1).flatten(1).mT
        conjugate = adjoint(matrix)
        both = torch.stack([conjugate.flatten(0, 1), turned(conjugate).flatten(0, 1)])
        found.append(torch.bmm(flat.expand(2, -1, -1), both).view(2, *z.shape[2:], -1))
    z = found[-1]
    product = z.flatten(0, 1).flatten(1).mT @ adjoint(matrices[-1]).flatten(0, 1)
    found.append(product.view(*z.shape[2:], -1))
    return found


def derivatives(signals: Sequence[Tensor], cotangents: Sequence[Tensor]) -> list[Tensor]:
    """Of every matrix of an analysis, ``(2, n, m)``: the derivative of its inner product with a cotangent.

    ``signals`` are those of the analysis, ``cotangents`` those of the synthesis with the adjoint matrices.
    """
    found: list[Tensor] = []
    for before, after in zip(signals[:-1], reversed(cotangents[:-1]), strict=True):
        rows = after.flatten(0, 1).flatten(1)
        if not found:  # the input of the first step is real
            found.append((rows @ before.flatten(0, -2)).view(2, after.shape[1], -1))
            continue
        product = torch.bmm(rows.expand(2, -1, -1), before.flatten(1, -2)).unflatten(1, (2, -1))
        found.append(torch.stack([product[0, 0] + product[1, 1], product[0, 1] - product[1, 0]]))
    return found[::-1]


def adjoint(matrix: Tensor) -> Tensor:  # (2, n, m)
    """Conjugate transpose ``(2, m, n)``."""
    real, imaginary = matrix.mT
    return torch.stack([real, -imaginary])


def turned(matrix: Tensor) -> Tensor:  # (2, ...)
    """``i z``."""
    real, imaginary = matrix
    return torch.stack([-imaginary, real])


def times(x: Tensor, y: Tensor, *, conjugate: bool = False) -> Tensor:  # (2, ...), (2, ...)
    """``x y`` or ``x conj(y)`` entry by entry, with broadcasting."""
    sign = -1 if conjugate else 1
    real = torch.addcmul(x[0] * y[0], x[1], y[1], value=-sign)
    return torch.stack([real, torch.addcmul(x[1] * y[0], x[0], y[1], value=sign)])


def complex_matmul(x: Tensor, y: Tensor) -> Tensor:  # (2, ..., n, m), (2, ..., m, p)
    """``x y``, with broadcasting."""
    return torch.stack([x[0] @ y[0] - x[1] @ y[1], x[0] @ y[1] + x[1] @ y[0]])
