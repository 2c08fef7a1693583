"""The slow truth about XD-operations, for tests: Definition 3.2 as it stands, in complex arithmetic."""

from collections.abc import Sequence

import torch
from torch import Tensor

from eclose.ops.kaleidoscope import pairs


def definition(
    x: Tensor,  # (batch, c_in, *sizes)
    weight: Tensor,  # (c_out, c_in / groups, *kernels)
    bias: Tensor | None,  # (*transforms, 2)
    gates: Tensor | None,  # (c_out, c_in / groups), or pairs (c_out, c_in / groups, 2)
    outer: Sequence[Tensor],  # K of every axis, (out, transform, 2)
    filters: Sequence[Tensor],  # L, (transform, kernel, 2)
    inner: Sequence[Tensor],  # M, (transform, size, 2)
    groups: int = 1,
) -> Tensor:
    """``y_i = sum_j Real(K diag(C_ij (L w_ij + b)) M x_j)``, ``(batch, c_out, *outs)``."""
    per_frequency = _apply(filters, weight)
    if bias is not None:
        per_frequency = per_frequency + pairs.to_complex(bias)
    if gates is not None:
        gates = pairs.to_complex(gates) if gates.dim() == 3 else gates
        per_frequency = per_frequency * gates.reshape(*gates.shape, *[1] * len(outer))
    spectrum = _apply(inner, x).unflatten(1, (groups, -1))
    mixed = torch.einsum("bgi...,goi...->bgo...", spectrum, per_frequency.unflatten(0, (groups, -1)))
    return _apply(outer, mixed.flatten(1, 2)).real


def _apply(matrices: Sequence[Tensor], x: Tensor) -> Tensor:
    x = x if x.is_complex() else torch.complex(x, torch.zeros_like(x))
    for axis, matrix in enumerate(matrices, start=x.dim() - len(matrices)):
        x = torch.tensordot(x, pairs.to_complex(matrix), dims=([axis], [1])).movedim(-1, axis)
    return x
