"""Gated linear recurrences along tokens, all tokens at once: a GRU whose gates do not look back (Feng et al. 2024)."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def linear_recurrence(decay: Tensor, value: Tensor) -> Tensor:  # (..., tokens, features), twice
    """``h_t = decay_t h_(t-1) + value_t`` with ``h_0 = 0`` before the first token, by a parallel scan."""
    h: Tensor = _Recurrence.apply(decay, value)
    return h


class GatedScan(nn.Module):
    """``h_t = (1 - z_t) h_(t-1) + z_t c_t``: gates ``z = sigmoid`` of the first half of features, c the second."""

    def forward(self, x: Tensor) -> Tensor:  # (..., tokens, 2 * features)
        """``(..., tokens, features)``."""
        gates, candidates = x.to(torch.promote_types(x.dtype, torch.float32)).chunk(2, -1)
        return linear_recurrence((-gates).sigmoid(), gates.sigmoid() * candidates).to(x.dtype)


class _Recurrence(torch.autograd.Function):
    """Keeps decays and results only; the gradient is the recurrence from the last token to the first."""

    @staticmethod
    def forward(ctx: Any, decay: Tensor, value: Tensor) -> Tensor:
        h = _scan(decay, value)
        ctx.save_for_backward(decay, h)
        return h

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        decay, h = ctx.saved_tensors
        later = F.pad(decay[..., 1:, :], (0, 0, 0, 1))
        reached = linear_recurrence(later.flip(-2), gradient.flip(-2)).flip(-2)
        return reached * F.pad(h[..., :-1, :], (0, 0, 1, 0)), reached


def _scan(decay: Tensor, value: Tensor) -> Tensor:
    """After a round of reach r every token holds what the last r tokens give it; r doubles (Hillis and Steele 1986)."""
    decay, value = decay.clone(), value.clone()
    reach, tokens = 1, value.shape[-2]
    while reach < tokens:
        value[..., reach:, :] = torch.addcmul(value[..., reach:, :], decay[..., reach:, :], value[..., :-reach, :])
        decay[..., reach:, :] = decay[..., reach:, :] * decay[..., :-reach, :]
        reach *= 2
    return value
