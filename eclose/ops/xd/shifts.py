"""Shift tensors: all that K, L and M of an axis do to a signal, tap by tap.

``T[s, p, u] = sum_f K[p, f] L[f, s] M[f, u]`` is what tap s of output p does to input u: at the start of a
convolution a matrix of zeros and ones that shifts the signal. On one axis the bias is one more tap, of weight C:
``D[p, u] = sum_f K[p, f] b[f] M[f, u]``.
"""

import torch
from torch import Tensor

from eclose.ops.xd.terms import Terms


def shift_tensors(terms: Terms) -> list[Tensor]:
    """``(2, kernel, out, size)`` of every axis; of a single one the real part, ``(1, kernel, out, size)``."""
    single = len(terms.outer) == 1
    filters = list(terms.filters)
    if single and terms.bias is not None:
        filters[0] = torch.cat([filters[0], terms.bias.unsqueeze(-1)], dim=-1)
    found = [shift_tensor(*matrices, real=single) for matrices in zip(terms.outer, filters, terms.inner, strict=True)]
    if terms.mask is not None:
        found[-1] = found[-1] * terms.mask
    return [shift.to(terms.x.dtype) for shift in found]


def tap_weights(terms: Terms) -> Tensor:
    """``(groups, c_out, c_in, *kernels)``, with C as one more tap where the bias is one."""
    weight = terms.weight
    if len(terms.outer) == 1 and terms.bias is not None:
        gates = weight.new_ones(weight.shape[:2]) if terms.gates is None else terms.gates
        weight = torch.cat([weight, gates.unsqueeze(-1)], dim=-1)
    return weight.unflatten(0, (terms.groups, -1))


def shift_tensor(outer: Tensor, filters: Tensor, inner: Tensor, *, real: bool = False) -> Tensor:
    """``(2, kernel, out, size)`` of one axis, from ``(2, out, n)``, ``(2, n, kernel)`` and ``(2, n, size)``."""
    taps = filters.mT.unsqueeze(2)  # (2, kernel, 1, n)
    rows = taps[0] * outer[0] - taps[1] * outer[1], taps[0] * outer[1] + taps[1] * outer[0]  # (kernel, out, n)
    both = torch.cat(rows, dim=-1).flatten(0, 1)  # one product of (kernel * out, 2n) with (2n, 2 * size)
    right = torch.cat([inner[0], -inner[1]])
    if not real:
        right = torch.cat([right, torch.cat([inner[1], inner[0]])], dim=1)
    shape = (-1, inner.shape[2])
    return (both @ right).unflatten(1, shape).movedim(1, 0).unflatten(1, rows[0].shape[:2])
