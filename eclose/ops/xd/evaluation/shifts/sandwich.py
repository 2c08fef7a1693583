"""Sandwich order: shifts along all axes but the first, one product over channels and taps, shifts along the first.

Best where kernels are small and signals long: no spectrum is ever formed, and no pair of channels is transformed.
"""

import torch
from torch import Tensor

from eclose.ops.xd.evaluation.shifts import first_axis
from eclose.ops.xd.evaluation.shifts import sandwich_gpu as two_axes
from eclose.ops.xd.evaluation.shifts.axis_products import moved, spread, spread_slopes, unmoved
from eclose.ops.xd.evaluation.shifts.mixing import by_group, by_matrix, mixed, ungrouped
from eclose.ops.xd.evaluation.shifts.one_axis import channels_first, channels_first_slopes
from eclose.ops.xd.evaluation.shifts.slopes import Slopes, Wanted


def arranged(weight: Tensor) -> Tensor:  # (groups, c_out, c_in, *kernels)
    """``(groups, c_out * kernel_1, kernel_2 .. * c_in)``."""
    rows = weight.shape[1] * weight.shape[3]
    return weight.permute(0, 1, *range(3, weight.dim()), 2).reshape(len(weight), rows, -1)


def disarranged(mixing: Tensor, shape: torch.Size) -> Tensor:  # (groups, c_out * kernel_1, kernel_2 .. * c_in)
    """The way back to weights of this shape, a view."""
    groups, outputs, inputs, *kernels = shape
    return mixing.view(groups, outputs, *kernels, inputs).movedim(-1, 2)


def applied(x: Tensor, mixing: Tensor, shifts: list[Tensor]) -> Tensor:
    """``(batch, c_out, *outs)``."""
    if len(shifts) == 1:
        return channels_first(x, mixing, shifts[0])
    if two_axes.served(x, mixing, shifts):
        return two_axes.applied(x, mixing, shifts)
    rows = _rows(spread(moved(x), shifts[1:])[-1], mixing, shifts[0], x.shape[1])
    y = first_axis.real_part(_stacked(shifts[0]), rows)
    outs = [shift.shape[2] for shift in shifts]
    return unmoved(y.view(-1, *outs[:-1], x.shape[0], outs[-1]))


def slopes(x: Tensor, mixing: Tensor, shifts: list[Tensor], cotangent: Tensor, wanted: Wanted) -> Slopes:
    """Derivatives by signal, matrix and shift tensors."""
    if len(shifts) == 1:
        return channels_first_slopes(x, mixing, shifts[0], cotangent, wanted)
    if two_axes.served(x, mixing, shifts):
        return two_axes.slopes(x, mixing, shifts, cotangent, wanted)
    signal, (taps, out, size) = moved(x), shifts[0].shape[1:]
    signals = spread(signal, shifts[1:]) if wanted.mixing or wanted.shifts else []
    y = moved(cotangent).view(cotangent.shape[1], out, -1)
    by_first = by_mixing = None
    if wanted.shifts:
        by_stacked = first_axis.by_matrix(y, _rows(signals[-1], mixing, shifts[0], x.shape[1]))
        by_first = by_stacked.unflatten(2, (taps, size)).transpose(1, 2)
    by_rows = first_axis.by_signal(_stacked(shifts[0]), y).view(2, len(mixing), mixing.shape[1], -1)
    if wanted.mixing:
        by_mixing = by_matrix(by_rows, by_group(signals[-1], len(mixing), x.shape[1], by_rows.shape[-1]))
    del signals[-1:]  # large, and of no more use
    if not (wanted.x or wanted.shifts):
        return [None, by_mixing, *[None] * len(shifts)]
    by_spread = ungrouped(mixed(mixing.mT, by_rows), mixing.shape[2] * len(mixing) // x.shape[1])
    del by_rows
    by_signal, *by_others = spread_slopes(signal, shifts[1:], signals, by_spread, wanted)
    return [None if by_signal is None else unmoved(by_signal), by_mixing, by_first, *by_others]


def _rows(z: Tensor, mixing: Tensor, shift: Tensor, channels: int) -> Tensor:  # (2, taps * c_in, size, columns)
    """``(2, c_out, kernel * size, columns)``."""
    taps, size, columns = shift.shape[1], shift.shape[3], z.shape[3]
    return mixed(mixing, by_group(z, len(mixing), channels, size * columns)).view(2, -1, taps * size, columns)


def _stacked(shift: Tensor) -> Tensor:  # (2, kernel, out, size)
    """``(2, out, kernel * size)``."""
    return shift.transpose(1, 2).flatten(2)
