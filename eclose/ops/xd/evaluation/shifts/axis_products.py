"""Shifts along all axes but the first, and their derivatives, for the orders that use shift tensors.

Signals lie as ``(channels, size_1, .., batch, size_N)``, so that shifts of the last axis are one product with long
rows, and what comes out is, with taps and channels first, what the product over both of them takes.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from eclose.ops.xd.algebra.pairs_first import adjoint, contracted_each
from eclose.ops.xd.evaluation.shifts.slopes import Wanted

Pair = tuple[Tensor, Tensor]


def moved(x: Tensor) -> Tensor:  # (batch, channels, *sizes)
    """``(channels, size_1, .., batch, size_N)``."""
    return x.movedim(0, -2).contiguous()


def unmoved(x: Tensor) -> Tensor:  # (channels, size_1, .., batch, size_N)
    """``(batch, channels, *sizes)``, a view."""
    return x.movedim(-2, 0)


def spread(x: Tensor, shifts: Sequence[Tensor]) -> list[Tensor]:  # moved; (2, kernel, out, size) of every axis
    """The signal after every shift, from the last axis to the second.

    The last one is ``(2, taps * c, size_1, columns)``, taps in the order of the axes; columns end with the batch and
    the last axis. With three axes there is one before, ``(2, kernel_3 * c * size_1, size_2, batch * out_3)``.
    """
    last = shifts[-1].flatten(0, 1)
    z = torch.bmm(x.flatten(0, -2).expand(len(last), -1, -1), last.mT)  # (2 * kernel, c * sizes * batch, out)
    # One step after the other: of a view at once torch.export does not see that it holds for every batch.
    found = [z.unflatten(1, x.shape[:-1]).flatten(-2).unflatten(0, (2, -1)).flatten(1, -3)]
    for shift in shifts[-2::-1]:
        taps = [torch.stack(along(matrix, found[-1])) for matrix in shift.unbind(1)]
        z = torch.stack(taps, dim=1)  # (2, kernel, rows, out, columns)
        found.append(z.view(2, -1, x.shape[1], z.shape[-2] * z.shape[-1]))
    return found


def spread_slopes(
    x: Tensor, shifts: Sequence[Tensor], signals: Sequence[Tensor], cotangent: Tensor, wanted: Wanted
) -> list[Tensor | None]:
    """Derivatives by the moved signal and by the shift tensors; ``cotangent`` is that of the last signal."""
    found: list[Tensor | None] = [None] * len(shifts)
    for place, shift in enumerate(shifts[:-1]):  # one at most
        columns = x.shape[-2] * shifts[-1].shape[2]
        after = cotangent.view(2, shift.shape[1], -1, shift.shape[2], columns).unbind(1)  # of every tap
        if wanted.shifts:
            found[place] = torch.stack([_by_matrix(part, signals[0]) for part in after], dim=1)
        slopes = [along(adjoint(matrix), part) for matrix, part in zip(shift.unbind(1), after, strict=True)]
        cotangent = torch.stack([sum(parts[1:], parts[0]) for parts in zip(*slopes, strict=True)])
    last, rows = shifts[-1].flatten(0, 1), x.flatten(0, -2)
    z = cotangent.view(len(last), -1, last.shape[1])  # (2 * kernel, rows, out)
    if wanted.shifts:
        found[-1] = contracted_each(z.mT, rows).view_as(shifts[-1])
    if not wanted.x:
        return [None, *found]
    return [torch.bmm(z, last).sum(0).view_as(x), *found]


def along(matrix: Tensor, z: Tensor) -> Pair:  # (2, out, size), (2, rows, size, columns)
    """The two parts ``(rows, out, columns)`` of a complex matrix times a complex signal."""
    (a, b), (real, imaginary) = matrix.unsqueeze(1).expand(-1, z.shape[1], -1, -1), z
    return (
        torch.bmm(a, real).baddbmm_(b, imaginary, alpha=-1),
        torch.bmm(b, real).baddbmm_(a, imaginary),
    )


def _by_matrix(cotangent: Tensor, z: Tensor) -> Tensor:  # (2, rows, out, columns), (2, rows, size, columns)
    """``(2, out, size)``."""
    (real, imaginary), (x, y) = cotangent, z.mT
    return torch.stack(
        [
            torch.bmm(real, x).baddbmm_(imaginary, y).sum(0),
            torch.bmm(imaginary, x).baddbmm_(real, y, alpha=-1).sum(0),
        ]
    )
