"""Sandwich order: shifts along all axes but the first, one product over channels and taps, shifts along the first.

Best where kernels are small and signals long: no spectrum is ever formed, and no pair of channels is transformed.
"""

import torch
from torch import Tensor

from eclose.ops.xd.shifts import shift_tensors
from eclose.ops.xd.spectral import spectral_bias
from eclose.ops.xd.terms import Terms


def sandwich(terms: Terms) -> Tensor:
    """The output ``(batch, c_out, *outs)``, by operations that torch differentiates."""
    shifts = shift_tensors(terms)
    weight = terms.weight.unflatten(0, (terms.groups, -1))  # (groups, c_out, c_in, *kernels)
    if len(shifts) == 1:
        y = _one_axis(terms.x, weight, shifts[0][0])
    else:
        taps = list(range(weight.dim() - 1, 3, -1))
        mixing = weight.permute(0, 1, 3, *taps, 2).flatten(3).flatten(1, 2)
        y = _first_axis(mixing @ shifted(terms.x, shifts[1:], terms.groups), shifts[0], terms)
    return y if terms.bias is None else y + spectral_bias(terms)


def shifted(x: Tensor, shifts: list[Tensor], groups: int) -> Tensor:  # (batch, c_in, size_1, *sizes)
    """Shifts along all axes but the first, ``(2, groups, kernels * c_in, size_1 * outs * batch)``.

    Taps lie in the order of the axes from the last to the second, the batch before the last axis.
    """
    x = x.movedim(0, -2)  # (c_in, *sizes, batch, last size)
    last = shifts[-1].flatten(0, 1).mT  # (2 * kernel, size, out)
    product = torch.bmm(x.flatten(0, -2).expand(len(last), -1, -1), last)
    z = product.view(2, -1, *x.shape[:-1], last.shape[-1])  # (2, kernel, c_in, *sizes, batch, last out)
    for shift in shifts[-2::-1]:  # one axis at most: (2, kernel_3, c_in, size_1, size_2, batch, out_3)
        (real, imaginary), (t_real, t_imaginary) = z.flatten(5).unsqueeze(4), shift
        z = torch.stack([t_real @ real - t_imaginary @ imaginary, t_real @ imaginary + t_imaginary @ real])
        z = z.movedim(4, 2).flatten(1, 2)  # (2, kernels, c_in, size_1, out_2, batch * out_3)
    z = z.flatten(3).unflatten(2, (groups, -1))
    return z.movedim(2, 1).flatten(2, 3)


def _one_axis(x: Tensor, weight: Tensor, shift: Tensor) -> Tensor:
    """Channels first, then shifts: nothing is complex, nothing moved."""
    groups = len(weight)
    mixing = weight.transpose(2, 3).flatten(1, 2)  # (groups, c_out * kernel, c_in)
    spread = mixing @ x.unflatten(1, (groups, -1))  # (batch, groups, c_out * kernel, size)
    rows = spread.view(x.shape[0], -1, shift.shape[0] * shift.shape[2])
    return rows @ shift.movedim(1, 2).flatten(0, 1)


def _first_axis(spread: Tensor, shift: Tensor, terms: Terms) -> Tensor:  # (2, groups, c_out * kernel, columns)
    _, taps, out, size = shift.shape
    real, imaginary = spread.view(2, len(terms.weight), taps * size, -1)
    t_real, t_imaginary = shift.movedim(1, 2).flatten(2).unsqueeze(1).expand(-1, len(terms.weight), -1, -1)
    y = torch.baddbmm(torch.bmm(t_real, real), t_imaginary, imaginary, alpha=-1)
    return unmoved(y, terms)


def unmoved(y: Tensor, terms: Terms) -> Tensor:  # (c_out, out_1 * outs * batch)
    """``(batch, c_out, *outs)``."""
    outs = [matrix.shape[1] for matrix in terms.outer]
    y = y.reshape(len(terms.weight), *outs[:-1], terms.x.shape[0], outs[-1])
    return y.movedim(-2, 0).contiguous()
