"""The products of the orders that use shift tensors, and their derivatives: along the axes, and over channels and taps.

Shifts along all axes but the first come as ``(channels, size_1, .., batch, size_N)``, so that those of the last axis
are one product with long rows, and what comes out is, with taps and channels first, what the product over both of them
takes. Of shifts along the first axis only the real part is needs.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from eclose.ops.xd.algebra.pairs_first import adjoint, contracted, contracted_each
from eclose.ops.xd.evaluation.shifts.order import ShiftNeeds

Pair = tuple[Tensor, Tensor]


def batch_inside(x: Tensor) -> Tensor:  # (batch, channels, *sizes)
    """``(channels, size_1, .., batch, size_N)``."""
    return x.movedim(0, -2).contiguous()


def batch_first(x: Tensor) -> Tensor:  # (channels, size_1, .., batch, size_N)
    """``(batch, channels, *sizes)``, a view."""
    return x.movedim(-2, 0)


def shift_others(x: Tensor, shifts: Sequence[Tensor]) -> list[Tensor]:  # of every axis (2, kernel, out, size)
    """The signal after every shift, from the last axis to the second.

    The last one is ``(2, taps * c, size_1, columns)``, taps in the order of the axes; columns end with the batch and
    the last axis. With three axes there is one before, ``(2, kernel_3 * c * size_1, size_2, batch * out_3)``.
    """
    last = shifts[-1].flatten(0, 1)
    z = torch.bmm(x.flatten(0, -2).expand(len(last), -1, -1), last.mT)  # (2 * kernel, c * sizes * batch, out)
    # One step after the other: of a view at once torch.export does not see that it holds for every batch.
    signals = [z.unflatten(1, x.shape[:-1]).flatten(-2).unflatten(0, (2, -1)).flatten(1, -3)]
    for shift in shifts[-2::-1]:
        taps = [torch.stack(complex_along(matrix, signals[-1])) for matrix in shift.unbind(1)]
        z = torch.stack(taps, dim=1)  # (2, kernel, rows, out, columns)
        signals.append(z.view(2, -1, x.shape[1], z.shape[-2] * z.shape[-1]))
    return signals


def shift_others_gradients(
    x: Tensor, shifts: Sequence[Tensor], signals: Sequence[Tensor], cotangent: Tensor, needs: ShiftNeeds
) -> list[Tensor | None]:
    """Derivatives by the batch_inside signal and by the shift tensors; ``cotangent`` is that of the last signal."""
    by_shifts: list[Tensor | None] = [None] * len(shifts)
    for place, shift in enumerate(shifts[:-1]):  # one at most
        columns = x.shape[-2] * shifts[-1].shape[2]
        after = cotangent.view(2, shift.shape[1], -1, shift.shape[2], columns).unbind(1)  # of every tap
        if needs.shifts:
            by_shifts[place] = torch.stack([_complex_by_matrix(part, signals[0]) for part in after], dim=1)
        slopes = [complex_along(adjoint(matrix), part) for matrix, part in zip(shift.unbind(1), after, strict=True)]
        cotangent = torch.stack([sum(parts[1:], parts[0]) for parts in zip(*slopes, strict=True)])
    last, rows = shifts[-1].flatten(0, 1), x.flatten(0, -2)
    z = cotangent.view(len(last), -1, last.shape[1])  # (2 * kernel, rows, out)
    if needs.shifts:
        by_shifts[-1] = contracted_each(z.mT, rows).view_as(shifts[-1])
    if not needs.x:
        return [None, *by_shifts]
    return [torch.bmm(z, last).sum(0).view_as(x), *by_shifts]


def complex_along(matrix: Tensor, z: Tensor) -> Pair:  # (2, out, size), (2, rows, size, columns)
    """The two parts ``(rows, out, columns)`` of a complex matrix times a complex signal."""
    (a, b), (real, imaginary) = matrix.unsqueeze(1).expand(-1, z.shape[1], -1, -1), z
    return (
        torch.bmm(a, real).baddbmm_(b, imaginary, alpha=-1),
        torch.bmm(b, real).baddbmm_(a, imaginary),
    )


def _complex_by_matrix(cotangent: Tensor, z: Tensor) -> Tensor:  # (2, rows, out, columns), (2, rows, size, columns)
    """``(2, out, size)``."""
    (real, imaginary), (x, y) = cotangent, z.mT
    return torch.stack(
        [
            torch.bmm(real, x).baddbmm_(imaginary, y).sum(0),
            torch.bmm(imaginary, x).baddbmm_(real, y, alpha=-1).sum(0),
        ]
    )


def real_product(matrix: Tensor, z: Tensor) -> Tensor:  # (2, out, size), (2, rows, size, columns)
    """``Real(A z)``, ``(rows, out, columns)``."""
    real, imaginary = matrix.unsqueeze(1).expand(-1, z.shape[1], -1, -1)
    return torch.bmm(real, z[0]).baddbmm_(imaginary, z[1], alpha=-1)


def real_product_by_signal(matrix: Tensor, cotangent: Tensor) -> Tensor:  # (2, out, size), (rows, out, columns)
    """``(2, rows, size, columns)``."""
    rows, _, columns = cotangent.shape
    gradient = cotangent.new_empty(2, rows, matrix.shape[2], columns)
    for part, target in zip((matrix[0], -matrix[1]), gradient, strict=True):
        torch.bmm(part.mT.expand(rows, -1, -1), cotangent, out=target)
    return gradient


def real_product_by_matrix(cotangent: Tensor, z: Tensor) -> Tensor:  # (rows, out, columns), (2, rows, size, columns)
    """``(2, out, size)``."""
    by_row = z.new_empty(2, *cotangent.shape[:2], z.shape[2])
    for part, target in zip(z, by_row, strict=True):
        torch.bmm(cotangent, part.mT, out=target)
    slope = by_row.sum(1)
    slope[1].neg_()
    return slope


def mix(matrix: Tensor, columns: Tensor) -> Tensor:  # (groups, rows, inner), (parts, groups, inner, columns)
    """``(parts, groups, rows, columns)``."""
    repeated = matrix.expand(columns.shape[0], -1, -1, -1).flatten(0, 1)
    return torch.bmm(repeated, columns.flatten(0, 1)).unflatten(0, columns.shape[:2])


def mix_by_matrix(cotangent: Tensor, columns: Tensor) -> Tensor:  # (parts, groups, rows or inner, columns)
    """``(groups, rows, inner)``."""
    parts, groups = columns.shape[:2]
    if groups == 1 and parts <= 2:  # long columns
        terms = [contracted(y[0], z[0].mT) for y, z in zip(cotangent, columns, strict=True)]
        return sum(terms[1:], terms[0]).unsqueeze(0)
    product = torch.bmm(cotangent.flatten(0, 1), columns.flatten(0, 1).mT)
    return product.unflatten(0, (parts, groups)).sum(0)


def taps_by_group(z: Tensor, groups: int, channels: int, columns: int) -> Tensor:  # (parts, taps * channels, ...)
    """``(parts, groups, taps * channels / groups * .., columns)``: taps of a group side by side."""
    z = z.view(len(z), z.shape[1] // channels, groups, -1)
    return z.transpose(1, 2).reshape(len(z), groups, -1, columns)


def taps_ungrouped(z: Tensor, taps: int) -> Tensor:  # (parts, groups, taps * .., columns)
    """``(parts, taps, groups, -1)``: the way back."""
    return z.view(*z.shape[:2], taps, -1).transpose(1, 2).contiguous()
