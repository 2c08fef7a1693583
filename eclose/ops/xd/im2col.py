"""Im2col order: shifts along all axes, then one product over channels and taps. Best where channels are many."""

import torch
from torch import Tensor

from eclose.ops.xd.sandwich import shifted, unmoved
from eclose.ops.xd.shifts import shift_tensors
from eclose.ops.xd.spectral import spectral_bias
from eclose.ops.xd.terms import Terms


def im2col(terms: Terms) -> Tensor:
    """The output ``(batch, c_out, *outs)``, by operations that torch differentiates."""
    shifts = shift_tensors(terms)
    weight = terms.weight.unflatten(0, (terms.groups, -1))  # (groups, c_out, c_in, *kernels)
    y = _one_axis(terms.x, weight, shifts[0][0]) if len(shifts) == 1 else _more_axes(terms, weight, shifts)
    return y if terms.bias is None else y + spectral_bias(terms)


def _one_axis(x: Tensor, weight: Tensor, shift: Tensor) -> Tensor:
    columns = x @ shift.flatten(0, 1).mT  # (batch, c_in, kernel * out)
    columns = columns.view(x.shape[0], len(weight), -1, shift.shape[1])
    return (weight.flatten(2) @ columns).flatten(1, 2)


def _more_axes(terms: Terms, weight: Tensor, shifts: list[Tensor]) -> Tensor:
    _, taps, out, size = shifts[0].shape
    spread = shifted(terms.x, shifts[1:], terms.groups)  # (2, groups, kernels * c_in, size_1 * columns)
    real, imaginary = spread.unflatten(-1, (size, -1)).flatten(1, 2)
    t_real, t_imaginary = shifts[0].flatten(1, 2).unsqueeze(1).expand(-1, len(real), -1, -1)
    columns = torch.baddbmm(torch.bmm(t_real, real), t_imaginary, imaginary, alpha=-1)
    columns = columns.view(terms.groups, -1, out * real.shape[-1])  # (groups, kernels * c_in * kernel_1, ...)
    mixing = weight.permute(0, 1, *range(weight.dim() - 1, 3, -1), 2, 3).flatten(2)
    return unmoved(mixing @ columns, terms)
