"""Im2col order: shifts along all axes, then one product over channels and taps. Best where channels are many."""

import torch
from torch import Tensor

from eclose.ops.xd.evaluation.shifts import first_axis
from eclose.ops.xd.evaluation.shifts.axis_products import moved, spread, spread_slopes, unmoved
from eclose.ops.xd.evaluation.shifts.mixing import by_group, by_matrix, mixed, ungrouped
from eclose.ops.xd.evaluation.shifts.one_axis import shifts_first, shifts_first_slopes
from eclose.ops.xd.evaluation.shifts.slopes import Slopes, Wanted


def arranged(weight: Tensor) -> Tensor:  # (groups, c_out, c_in, *kernels)
    """``(groups, c_out, kernel_2 .. * c_in * kernel_1)``."""
    return weight.permute(0, 1, *range(4, weight.dim()), 2, 3).flatten(2)


def disarranged(mixing: Tensor, shape: torch.Size) -> Tensor:  # (groups, c_out, kernel_2 .. * c_in * kernel_1)
    """The way back to weights of this shape, a view."""
    groups, outputs, inputs, first, *others = shape
    return mixing.view(groups, outputs, *others, inputs, first).movedim((-2, -1), (2, 3))


def applied(x: Tensor, mixing: Tensor, shifts: list[Tensor]) -> Tensor:
    """``(batch, c_out, *outs)``."""
    if len(shifts) == 1:
        return shifts_first(x, mixing, shifts[0])
    columns = _columns(spread(moved(x), shifts[1:])[-1], mixing, shifts[0], x.shape[1])
    outs = [shift.shape[2] for shift in shifts]
    return unmoved(mixed(mixing, columns).view(-1, *outs[:-1], x.shape[0], outs[-1]))


def slopes(x: Tensor, mixing: Tensor, shifts: list[Tensor], cotangent: Tensor, wanted: Wanted) -> Slopes:
    """Derivatives by signal, matrix and shift tensors."""
    if len(shifts) == 1:
        return shifts_first_slopes(x, mixing, shifts[0], cotangent, wanted)
    signal, (taps, out, _) = moved(x), shifts[0].shape[1:]
    signals = spread(signal, shifts[1:]) if wanted.mixing or wanted.shifts else []
    y = moved(cotangent).view(1, len(mixing), mixing.shape[1], -1)
    by_first = by_mixing = None
    if wanted.mixing:
        by_mixing = by_matrix(y, _columns(signals[-1], mixing, shifts[0], x.shape[1]))
    if not (wanted.x or wanted.shifts):
        return [None, by_mixing, *[None] * len(shifts)]
    by_columns = ungrouped(mixed(mixing.mT, y), mixing.shape[2] * len(mixing) // (x.shape[1] * taps))
    by_columns = by_columns.view(-1, taps * out, y.shape[-1] // out)
    if wanted.shifts:
        by_first = first_axis.by_matrix(by_columns, signals[-1]).view_as(shifts[0])
    del signals[-1:]  # large, and of no more use
    by_spread = first_axis.by_signal(shifts[0].flatten(1, 2), by_columns)
    del by_columns
    by_signal, *by_others = spread_slopes(signal, shifts[1:], signals, by_spread, wanted)
    return [None if by_signal is None else unmoved(by_signal), by_mixing, by_first, *by_others]


def _columns(z: Tensor, mixing: Tensor, shift: Tensor, channels: int) -> Tensor:  # (2, taps * c_in, size, columns)
    """``(1, groups, taps * c_in * kernel, out * columns)``."""
    rows = first_axis.real_part(shift.flatten(1, 2), z)  # (taps * c_in, kernel * out, columns)
    return by_group(rows.unsqueeze(0), len(mixing), channels, shift.shape[2] * z.shape[3])
