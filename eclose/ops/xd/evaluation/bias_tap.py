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
    taps = filters.shape[-1] + (0 if bias is None else bias.shape[-1])
    missing = -taps % ALIGNED.get(filters.device.type, 4) if aligned else 0
    if bias is None:
        return F.pad(filters, (0, missing)) if missing else filters
    columns = bias.flatten(2, -2)
    more = (0, missing, 0, filters.shape[2] - columns.shape[2])
    return torch.cat([filters, F.pad(columns, more) if any(more) else columns], dim=-1)


def with_gates(weight: Tensor, gates: Tensor | None, bias: bool, taps: int) -> Tensor:
    """Weights ``(c_out, c_in / groups, taps)`` for these filters: C behind them (ones without it) where there is b.

    What meets the zeros of the filters does not count: numbers that are there already, which need not be made.
    """
    missing = taps - weight.shape[-1]
    if not bias:
        return F.pad(weight, (0, missing)) if missing else weight
    shape = (*weight.shape[:2], -1)
    columns = weight.new_ones(()).expand(*shape[:2], 1) if gates is None else gates.reshape(shape)
    parts = [weight, columns]
    if missing := missing - columns.shape[-1]:
        parts.append(columns[..., :1].detach().expand(-1, -1, missing))
    return torch.cat(parts, dim=-1)
