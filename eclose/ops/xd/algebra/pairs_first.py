"""Complex matrices along all axes of a signal, as a few real matrix products that need no permutation.

*Analysis* takes the last axis of a signal ``(*rows, m_1, .., m_N)``, multiplies and puts the result first, so that
N steps end at ``(2, n_1, .., n_N, *rows)``: the axes have rotated into place. The way back is its adjoint, from the
first axis to the last, which is all that the derivatives need. Complex values are pairs along the first dimension,
and so are those of matrices ``(2, rows, columns)``.
"""

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from eclose.ops.kernels import served, traced

THIN = 32
"""Factors with up to so many columns have a kernel of their own, where it comes to a large product."""


def analysis(x: Tensor, matrices: Sequence[Tensor]) -> list[Tensor]:
    """All intermediate signals of ``A_1 x .. x A_N`` on a real x: x first, ``(2, n_1, .., n_N, *rows)`` last."""
    last = matrices[-1]
    product = _by_rows(last.reshape(-1, last.shape[2]), x.reshape(-1, x.shape[-1]))
    signals = [x, product.view(2, -1, *x.shape[:-1])]
    for matrix in reversed(matrices[:-1]):
        z = signals[-1]
        rows = torch.cat(z.view(2, -1, z.shape[-1]).unbind(), dim=1)  # both parts side by side: one product
        both = torch.cat([matrix, turned(matrix)], dim=-1)
        signals.append(torch.mm(both.view(-1, both.shape[2]), rows.t()).view(2, -1, *z.shape[1:-1]))
    return signals


def _by_rows(x: Tensor, y: Tensor) -> Tensor:  # (n, k), (m, k)
    """``x y^T``, by a kernel for thin factors where there is one."""
    if served(x, y) and x.shape[1] <= THIN and x.shape[0] * y.shape[0] >= 2**20:
        from eclose.ops.xd.kernels.frequency_product import thin_product

        return thin_product(x, y)
    return torch.mm(x, y.t())


def returned(z: Tensor, matrices: Sequence[Tensor]) -> list[Tensor]:
    """All intermediate signals of ``Real(A_1^* x .. x A_N^* z)``: z first, real ``(*rows, m_1, .., m_N)`` last."""
    signals = but_last(z, matrices)
    z = signals[-1]
    matrix = matrices[-1].flatten(0, 1)
    product = torch.mm(_rows(z).t(), _for_product(matrix, matrix.numel()))
    signals.append(product.view(*z.shape[2:], -1))
    return signals


def _rows(z: Tensor) -> Tensor:  # (2, n, ...)
    """``(2 * n, -1)``."""
    return z.reshape(2 * z.shape[1], -1)


def _for_product(matrix: Tensor, numbers: int) -> Tensor:
    """The second factor of a product, a column in one piece where that pays: for large ones, by rows, on a GPU.

    ``numbers``: of the matrix of a transform among both factors and the result; the other two are signals.
    """
    if numbers < 2**20 or len(matrix) % 4 or not matrix.is_contiguous() or not served(matrix):
        return matrix
    from eclose.ops.xd.kernels.transposition import by_columns

    return by_columns(matrix)


def but_last(z: Tensor, matrices: Sequence[Tensor]) -> list[Tensor]:
    """The signals of :func:`returned` but for the last one, which derivatives do not need."""
    signals = [z]
    for matrix in matrices[:-1]:
        z = signals[-1]
        both = torch.stack([matrix, turned(matrix)]).view(2, -1, matrix.shape[2])
        signals.append(torch.bmm(_rows(z).t().expand(2, -1, -1), both).view(2, *z.shape[2:], -1))
    return signals


def matrix_gradients(signals: Sequence[Tensor], cotangents: Sequence[Tensor]) -> list[Tensor]:
    """Of every matrix of an analysis, ``(2, n, m)``: the derivative of its inner product with a cotangent.

    ``signals`` are those of the analysis, ``cotangents`` those of the way back, both but for the last.
    """
    gradients: list[Tensor] = []
    for before, after in zip(signals, reversed(cotangents), strict=True):
        rows, columns = _rows(after), before.shape[-1]
        if not gradients:  # the input of the first step is real
            gradients.append(contracted(rows, before.reshape(-1, columns)).view(2, -1, columns))
            continue
        real, imaginary = (contracted(rows, part).view(2, -1, columns) for part in before.view(2, -1, columns))
        gradients.append(torch.stack([real[0] + imaginary[1], real[1] - imaginary[0]]))
    return gradients[::-1]


def contracted(x: Tensor, y: Tensor) -> Tensor:  # (n, rows), (rows, m)
    """``x y`` where rows are many and the result is small: in parts, which a device works on at the same time."""
    parts = _parts(y.shape[0], x.shape[0] * y.shape[1], y.device.type)
    if parts == 1:
        return torch.mm(x, _for_product(y, x.shape[0] * y.shape[1]))
    return torch.bmm(x.unflatten(1, (parts, -1)).transpose(0, 1), y.unflatten(0, (parts, -1))).sum(0)


def contracted_each(x: Tensor, y: Tensor) -> Tensor:  # (count, n, rows), (rows, m)
    """``(count, n, m)``: the same for several, one after the other, summed up at once."""
    parts = _parts(len(y), x.shape[:2].numel() * y.shape[1], y.device.type)
    partial_sums = y.new_empty(len(x), parts, x.shape[1], y.shape[1])
    for one, target in zip(x, partial_sums, strict=True):
        torch.bmm(one.unflatten(1, (parts, -1)).transpose(0, 1), y.unflatten(0, (parts, -1)), out=target)
    return partial_sums.sum(1)


@cache
def _parts(rows: int, numbers: int, device_type: str) -> int:
    """The largest divisor that leaves enough rows to every part, and a million numbers to all results.

    On a GPU the products of torch are split as they should be already.
    """
    if device_type == "cuda":
        return 1
    most = min(256, max(1, rows // 1000), max(1, 2**20 // numbers))
    return max(parts for parts in range(1, most + 1) if rows % parts == 0)


def adjoint(matrix: Tensor, pairs: int = 0) -> Tensor:  # (2, .., n, m)
    """Conjugate transpose ``(2, .., m, n)``; real and imaginary part lie along the dimension ``pairs``."""
    real, imaginary = matrix.mT.unbind(pairs)
    return torch.stack([real, -imaginary], dim=pairs)


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


def complex_product(x: Tensor, y: Tensor, *, conjugate: bool = False) -> Tensor:  # (2, ..., n, m), (2, ..., m, p)
    """``x y`` or ``x conj(y)``, ``(2, ..., n, p)``, by one kernel where there is one, else by four real products."""
    if x.shape[-1] == 1:
        return times(x, y, conjugate=conjugate)
    sign = -1 if conjugate else 1
    shape = (*x.shape[:-1], y.shape[-1])
    if served(x, y):
        from eclose.ops.xd.kernels.frequency_product import complex_bmm

        return complex_bmm(x.flatten(1, -3), y.flatten(1, -3), conjugate=conjugate).view(shape)
    (x_real, x_imaginary), (y_real, y_imaginary) = x.flatten(1, -3), y.flatten(1, -3)
    if torch.is_grad_enabled() or traced():
        real = torch.baddbmm(x_real @ y_real, x_imaginary, y_imaginary, alpha=-sign)
        imaginary = torch.baddbmm(x_imaginary @ y_real, x_real, y_imaginary, alpha=sign)
        return torch.stack([real, imaginary]).view(shape)
    both_parts = x.new_empty(2, *x_real.shape[:-1], y.shape[-1])
    real, imaginary = both_parts
    torch.bmm(x_real, y_real, out=real)
    torch.bmm(x_imaginary, y_real, out=imaginary)
    real.baddbmm_(x_imaginary, y_imaginary, alpha=-sign)
    imaginary.baddbmm_(x_real, y_imaginary, alpha=sign)
    return both_parts.view(shape)
