"""Where there is one axis, ``L w_ij + C_ij b`` is one product: b is one more column of L, and C one more tap.

Of complex gates b and i b are two more columns, the parts of C two more taps.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

ALIGNED = {"cpu": 1, "cuda": 4}
"""Taps come in multiples of this, the last ones zero: products of other sizes miss the matrix units of a GPU."""


def with_bias(filters: Tensor, bias: Tensor | None, aligned: bool) -> Tensor:
    """Filters ``(operations, 2, n, taps)`` with b behind them, ``(operations, 2, *transforms, 1 or 2)``."""
    parts = [filters]
    if bias is not None:
        columns = bias.flatten(2, -2)
        parts.append(F.pad(columns, (0, 0, 0, filters.shape[2] - columns.shape[2])))
    taps = sum(part.shape[-1] for part in parts)
    if aligned and (missing := -taps % ALIGNED.get(filters.device.type, 4)):
        parts.append(filters.new_zeros(*filters.shape[:-1], missing))
    return torch.cat(parts, dim=-1) if len(parts) > 1 else filters


def with_gates(weight: Tensor, gates: Tensor | None, bias: bool, taps: int) -> Tensor:
    """Weights ``(c_out, c_in / groups, taps)`` for these filters: C behind them (ones without it) where there is b.

    What meets the zeros of the filters does not count: numbers that are there already, which need not be made.
    """
    parts = [weight]
    if bias:
        parts.append(weight.new_ones(*weight.shape[:2], 1) if gates is None else gates.reshape(*weight.shape[:2], -1))
    if missing := taps - sum(part.shape[-1] for part in parts):
        parts.append(weight[..., :1].detach().expand(-1, -1, missing))
    return torch.cat(parts, dim=-1) if len(parts) > 1 else weight
