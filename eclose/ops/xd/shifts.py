"""Shift tensors: all that K, L and M of an axis do to a signal, tap by tap.

``T[s, p, u] = sum_f K[p, f] L[f, s] M[f, u]`` is what tap s of output p does to input u: at the start of a
convolution a matrix of zeros and ones that shifts the signal.
"""

import torch
from torch import Tensor

from eclose.ops.xd.terms import Terms
from eclose.ops.xd.transforms import turned


def shift_tensors(terms: Terms) -> list[Tensor]:
    """``(2, kernel, out, size)`` of every axis."""
    found = [
        shift_tensor(outer, filters, inner)
        for outer, filters, inner in zip(terms.outer, terms.filters, terms.inner, strict=True)
    ]
    if terms.mask is not None:
        found[-1] = found[-1] * terms.mask
    return found


def shift_tensor(outer: Tensor, filters: Tensor, inner: Tensor) -> Tensor:
    """``(2, kernel, out, size)`` of one axis, from ``(2, out, n)``, ``(2, n, kernel)`` and ``(2, n, size)``."""
    taps = filters.mT.unsqueeze(2)  # (2, kernel, 1, n)
    rows = taps[0] * outer[0] - taps[1] * outer[1], taps[0] * outer[1] + taps[1] * outer[0]  # (kernel, out, n)
    both = torch.cat(rows, dim=-1).flatten(0, 1)  # one product of (kernel * out, 2n) with (2n, 2 * size)
    right = torch.cat([inner.movedim(0, 1).flatten(1), turned(inner).movedim(0, 1).flatten(1)])
    return (both @ right).unflatten(1, (2, -1)).movedim(1, 0).unflatten(1, rows[0].shape[:2])
