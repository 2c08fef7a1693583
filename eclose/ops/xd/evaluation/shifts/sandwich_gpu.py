"""The sandwich order on two axes on a GPU, on signals as they lie: no axis is moved beside another.

What lies between the shifts of the two axes is ``(batch, channels, size_1 * 2, taps, out_2)``: a line for the real and
one for the imaginary part, with the taps of the second axis before the product over channels and taps, and those of
the first after it, when imaginary parts are negated. Where both have one shape, the one takes the place of the other.
"""

import torch
from torch import Tensor

from eclose.ops.kernels import served as has_kernels
from eclose.ops.xd.algebra.pairs_first import contracted
from eclose.ops.xd.evaluation.shifts.order import ShiftGradients, ShiftNeeds

WIDEST = 128
"""Up to so many channels times taps of a group, on either side, this is faster than products by torch (measured)."""


def served(x: Tensor, mixing: Tensor, shifts: list[Tensor]) -> bool:
    """Few channels on two axes, where there are kernels."""
    return len(shifts) == 2 and max(mixing.shape[1:]) <= WIDEST and has_kernels(x, mixing, *shifts)


def applied(x: Tensor, mixing: Tensor, shifts: list[Tensor]) -> Tensor:
    """``(batch, c_out, out_1, out_2)``."""
    columns = _columns(x.contiguous(), mixing, shifts)
    return torch.bmm(_stacked(shifts[0]).expand(len(columns), -1, -1), columns).unflatten(0, (len(x), -1))


def applied_gradients(
    x: Tensor, mixing: Tensor, shifts: list[Tensor], cotangent: Tensor, needs: ShiftNeeds
) -> ShiftGradients:
    """Derivatives by signal, matrix and shift tensors."""
    from eclose.ops.xd.kernels.sandwich import mixing_slope, summed_products

    (first, last), x, y = shifts, x.contiguous(), cotangent.contiguous().flatten(0, 1)  # (batch * c_out, out_1, out_2)
    by_x = by_mixing = by_first = by_last = None
    if needs.shifts:
        by_stacked = summed_products(y, _columns(x, mixing, shifts))
        by_first = by_stacked.view(*first.shape[2:], 2, -1).permute(2, 3, 0, 1)
    by_columns = torch.bmm(_stacked(first).mT.expand(len(y), -1, -1), y)
    by_lines = by_columns.view(len(x), -1, 2 * x.shape[2], first.shape[1], last.shape[2])
    if needs.mixing:
        by_mixing = mixing_slope(x, last.contiguous(), by_lines, len(mixing))
    if needs.x or needs.shifts:
        by_shifted = _unmixed(mixing, by_lines, last.shape[1]).view(-1, last.shape[:3].numel())
        if needs.shifts:
            by_last = contracted(by_shifted.mT, x.flatten(0, 2)).view_as(last)
        by_x = (by_shifted @ last.flatten(0, 2)).view_as(x) if needs.x else None
    return [by_x, by_mixing, by_first, by_last]


def _columns(x: Tensor, mixing: Tensor, shifts: list[Tensor]) -> Tensor:
    """``(batch * c_out, size_1 * 2 * kernel_1, out_2)``: all but the shifts of the first axis."""
    first, last = shifts
    z = x.flatten(0, 2) @ last.flatten(0, 2).mT
    z = z.view(*x.shape[:2], 2 * x.shape[2], *last.shape[1:3])
    return _mixed(mixing, z, first.shape[1]).flatten(0, 1).flatten(1, 2)


def _mixed(mixing: Tensor, z: Tensor, taps: int) -> Tensor:  # (groups, c_out * kernel_1, kernel_2 * c_in)
    """``(batch, c_out, size_1 * 2, kernel_1, out_2)``; z is of no more use."""
    from eclose.ops.xd.kernels.sandwich import mix_pixels

    out = _instead(z, mixing, taps)
    mix_pixels(mixing, _channel_rows(z, mixing).transpose(2, 3), _channel_rows(out, mixing))
    return out


def _unmixed(mixing: Tensor, z: Tensor, taps: int) -> Tensor:
    """``(batch, c_in, size_1 * 2, kernel_2, out_2)``: the adjoint; z is of no more use."""
    from eclose.ops.xd.kernels.sandwich import mix_pixels

    out = _instead(z, mixing.mT, taps)
    mix_pixels(mixing.mT, _channel_rows(z, mixing), _channel_rows(out, mixing).transpose(2, 3))
    return out


def _instead(z: Tensor, matrix: Tensor, taps: int) -> Tensor:  # (batch, channels, lines, taps, columns)
    """For what the matrix makes of ``z``: that itself, where it has the shape and all rows are written at once."""
    from eclose.ops.xd.kernels.sandwich import ROWS

    groups, rows, _ = matrix.shape
    shape = (len(z), groups * rows // taps, z.shape[2], taps, z.shape[4])
    return z if z.shape == shape and rows <= ROWS else z.new_empty(shape)


def _channel_rows(z: Tensor, mixing: Tensor) -> Tensor:  # (batch, channels, lines, taps, columns)
    """``(batch, groups, channels, taps, lines, columns)``, a view."""
    return z.unflatten(1, (len(mixing), -1)).transpose(3, 4)


def _stacked(shift: Tensor) -> Tensor:  # (2, kernel, out, size)
    """``(out, size * 2 * kernel)``."""
    return shift.permute(2, 3, 0, 1).flatten(1)
