"""Sandwich order: shifts along all axes but the first, one product over channels and taps, shifts along the first.

Best where kernels are small and signals long: no spectrum is ever formed, and no pair of channels is transformed.
"""

import torch
from torch import Tensor

from eclose.ops.xd.evaluation.shifts import sandwich_gpu
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
from eclose.ops.xd.evaluation.shifts.one_axis import channels_first, channels_first_gradients
from eclose.ops.xd.evaluation.shifts.order import ShiftGradients, ShiftNeeds


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
    if sandwich_gpu.served(x, mixing, shifts):
        return sandwich_gpu.applied(x, mixing, shifts)
    rows = _rows(shift_others(batch_inside(x), shifts[1:])[-1], mixing, shifts[0], x.shape[1])
    y = real_product(_stacked(shifts[0]), rows)
    outs = [shift.shape[2] for shift in shifts]
    return batch_first(y.view(-1, *outs[:-1], x.shape[0], outs[-1]))


def applied_gradients(
    x: Tensor, mixing: Tensor, shifts: list[Tensor], cotangent: Tensor, needs: ShiftNeeds
) -> ShiftGradients:
    """Derivatives by signal, matrix and shift tensors."""
    if len(shifts) == 1:
        return channels_first_gradients(x, mixing, shifts[0], cotangent, needs)
    if sandwich_gpu.served(x, mixing, shifts):
        return sandwich_gpu.applied_gradients(x, mixing, shifts, cotangent, needs)
    signal, (taps, out, size) = batch_inside(x), shifts[0].shape[1:]
    signals = shift_others(signal, shifts[1:]) if needs.mixing or needs.shifts else []
    y = batch_inside(cotangent).view(cotangent.shape[1], out, -1)
    by_first = by_mixing = None
    if needs.shifts:
        by_stacked = real_product_by_matrix(y, _rows(signals[-1], mixing, shifts[0], x.shape[1]))
        by_first = by_stacked.unflatten(2, (taps, size)).transpose(1, 2)
    by_rows = real_product_by_signal(_stacked(shifts[0]), y).view(2, len(mixing), mixing.shape[1], -1)
    if needs.mixing:
        by_mixing = mix_by_matrix(by_rows, taps_by_group(signals[-1], len(mixing), x.shape[1], by_rows.shape[-1]))
    del signals[-1:]  # large, and of no more use
    if not (needs.x or needs.shifts):
        return [None, by_mixing, *[None] * len(shifts)]
    by_spread = taps_ungrouped(mix(mixing.mT, by_rows), mixing.shape[2] * len(mixing) // x.shape[1])
    del by_rows
    by_signal, *by_others = shift_others_gradients(signal, shifts[1:], signals, by_spread, needs)
    return [None if by_signal is None else batch_first(by_signal), by_mixing, by_first, *by_others]


def _rows(z: Tensor, mixing: Tensor, shift: Tensor, channels: int) -> Tensor:  # (2, taps * c_in, size, columns)
    """``(2, c_out, kernel * size, columns)``."""
    taps, size, columns = shift.shape[1], shift.shape[3], z.shape[3]
    return mix(mixing, taps_by_group(z, len(mixing), channels, size * columns)).view(2, -1, taps * size, columns)


def _stacked(shift: Tensor) -> Tensor:  # (2, kernel, out, size)
    """``(2, out, kernel * size)``."""
    return shift.transpose(1, 2).flatten(2)
