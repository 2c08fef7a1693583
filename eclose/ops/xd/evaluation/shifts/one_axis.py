"""The orders that use shift tensors, on one axis: only the real part of the shift tensor counts."""

from torch import Tensor

from eclose.ops.xd.algebra.pairs_first import contracted
from eclose.ops.xd.evaluation.shifts.axis_products import (
    mix,
    mix_by_matrix,
)
from eclose.ops.xd.evaluation.shifts.order import ShiftGradients, ShiftNeeds


def channels_first(x: Tensor, mixing: Tensor, shift: Tensor) -> Tensor:
    """``(batch, c_out, out)`` from ``(batch, c_in, size)``, ``(groups, c_out * kernel, c_in)`` and the shifts."""
    rows = mix(mixing, x.unflatten(1, (len(mixing), -1)))  # (batch, groups, c_out * kernel, size)
    return (rows.view(x.shape[0], -1, shift.shape[1] * shift.shape[3]) @ _stacked(shift)).contiguous()


def channels_first_gradients(
    x: Tensor, mixing: Tensor, shift: Tensor, cotangent: Tensor, needs: ShiftNeeds
) -> ShiftGradients:
    """Derivatives of :func:`channels_first`."""
    signal = x.unflatten(1, (len(mixing), -1))
    by_x = by_mixing = by_shift = None
    flat = cotangent.flatten(0, 1)  # (batch * c_out, out)
    if needs.shifts:
        rows = mix(mixing, signal).view(len(flat), -1)
        by_stacked = contracted(rows.mT, flat)  # (kernel * size, out)
        by_shift = by_stacked.unflatten(0, (shift.shape[1], -1)).mT.unsqueeze(0)
        del rows
    if needs.x or needs.mixing:
        by_rows = (flat @ _stacked(shift).mT).view(x.shape[0], len(mixing), mixing.shape[1], -1)
        by_x = mix(mixing.mT, by_rows).flatten(1, 2) if needs.x else None
        by_mixing = mix_by_matrix(by_rows, signal) if needs.mixing else None
    return [by_x, by_mixing, by_shift]


def shifts_first(x: Tensor, mixing: Tensor, shift: Tensor) -> Tensor:
    """``(batch, c_out, out)`` from ``(batch, c_in, size)``, ``(groups, c_out, c_in * kernel)`` and the shifts."""
    return mix(mixing, _columns(x, mixing, shift)).flatten(1, 2)


def shifts_first_gradients(
    x: Tensor, mixing: Tensor, shift: Tensor, cotangent: Tensor, needs: ShiftNeeds
) -> ShiftGradients:
    """Derivatives of :func:`shifts_first`."""
    by_x = by_mixing = by_shift = None
    grouped = cotangent.unflatten(1, (len(mixing), -1))
    if needs.mixing:
        by_mixing = mix_by_matrix(grouped, _columns(x, mixing, shift))
    if needs.x or needs.shifts:
        rows = mix(mixing.mT, grouped).view(x.shape[0] * x.shape[1], -1)  # (batch * c_in, kernel * out)
        by_x = (rows @ shift[0].flatten(0, 1)).view_as(x) if needs.x else None
        by_shift = contracted(rows.mT, x.flatten(0, 1)).view_as(shift) if needs.shifts else None
    return [by_x, by_mixing, by_shift]


def _columns(x: Tensor, mixing: Tensor, shift: Tensor) -> Tensor:
    """``(batch, groups, c_in * kernel, out)``."""
    return (x.flatten(0, 1) @ shift[0].flatten(0, 1).mT).view(x.shape[0], len(mixing), mixing.shape[2], -1)


def _stacked(shift: Tensor) -> Tensor:  # (1, kernel, out, size)
    """``(kernel * size, out)``."""
    return shift[0].mT.flatten(0, 1)
