"""Im2col order: shifts along all axes, then one product over channels and taps. Best where channels are many."""

import torch
from torch import Tensor

from eclose.ops.xd.evaluation.shifts.axis_products import (
    batch_first,
    batch_inside,
    mix,
    mix_by_matrix,
    real_product,
    real_product_by_matrix,
    real_product_by_signal,
    shift_others,
    shift_others_gradients,
    taps_by_group,
    taps_ungrouped,
)
from eclose.ops.xd.evaluation.shifts.one_axis import shifts_first, shifts_first_gradients
from eclose.ops.xd.evaluation.shifts.order import ShiftGradients, ShiftNeeds


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
    columns = _columns(shift_others(batch_inside(x), shifts[1:])[-1], mixing, shifts[0], x.shape[1])
    outs = [shift.shape[2] for shift in shifts]
    return batch_first(mix(mixing, columns).view(-1, *outs[:-1], x.shape[0], outs[-1]))


def applied_gradients(
    x: Tensor, mixing: Tensor, shifts: list[Tensor], cotangent: Tensor, needs: ShiftNeeds
) -> ShiftGradients:
    """Derivatives by signal, matrix and shift tensors."""
    if len(shifts) == 1:
        return shifts_first_gradients(x, mixing, shifts[0], cotangent, needs)
    signal, (taps, out, _) = batch_inside(x), shifts[0].shape[1:]
    signals = shift_others(signal, shifts[1:]) if needs.mixing or needs.shifts else []
    y = batch_inside(cotangent).view(1, len(mixing), mixing.shape[1], -1)
    by_first = by_mixing = None
    if needs.mixing:
        by_mixing = mix_by_matrix(y, _columns(signals[-1], mixing, shifts[0], x.shape[1]))
    if not (needs.x or needs.shifts):
        return [None, by_mixing, *[None] * len(shifts)]
    by_columns = taps_ungrouped(mix(mixing.mT, y), mixing.shape[2] * len(mixing) // (x.shape[1] * taps))
    by_columns = by_columns.view(-1, taps * out, y.shape[-1] // out)
    if needs.shifts:
        by_first = real_product_by_matrix(by_columns, signals[-1]).view_as(shifts[0])
    del signals[-1:]  # large, and of no more use
    by_spread = real_product_by_signal(shifts[0].flatten(1, 2), by_columns)
    del by_columns
    by_signal, *by_others = shift_others_gradients(signal, shifts[1:], signals, by_spread, needs)
    return [None if by_signal is None else batch_first(by_signal), by_mixing, by_first, *by_others]


def _columns(z: Tensor, mixing: Tensor, shift: Tensor, channels: int) -> Tensor:  # (2, taps * c_in, size, columns)
    """``(1, groups, taps * c_in * kernel, out * columns)``."""
    rows = real_product(shift.flatten(1, 2), z)  # (taps * c_in, kernel * out, columns)
    return taps_by_group(rows.unsqueeze(0), len(mixing), channels, shift.shape[2] * z.shape[3])
