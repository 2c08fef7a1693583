"""An order of evaluation as one autograd function that keeps its inputs only."""

from typing import Any

import torch
from torch import Tensor

from eclose.ops.xd.frequency import frequency, frequency_gradients
from eclose.ops.xd.terms import Terms

GRADIENTS = {"frequency": (frequency, frequency_gradients)}


def recomputed(order: str, terms: Terms) -> Tensor:
    """The output of an order; its backward pass computes all intermediate signals anew."""
    return _Recomputed.apply(order, terms.groups, *terms.tensors())


class _Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, order: str, groups: int, *tensors: Tensor | None) -> Tensor:
        ctx.order, ctx.groups = order, groups
        ctx.save_for_backward(*tensors)
        return GRADIENTS[order][0](Terms.of(tensors, groups))

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Any:
        plain, gradients = GRADIENTS[ctx.order]
        tensors, needed = ctx.saved_tensors, list(ctx.needs_input_grad[2:])
        if torch.is_grad_enabled():  # derivatives of derivatives
            # Views: a tensor may depend on another of them, but only partial derivatives are asked for.
            views = [None if tensor is None else tensor.view_as(tensor) for tensor in tensors]
            chosen = [view for view, wanted in zip(views, needed, strict=True) if wanted and view is not None]
            output = plain(Terms.of(views, ctx.groups))
            slopes = iter(torch.autograd.grad(output, chosen, cotangent, create_graph=True, allow_unused=True))
            return None, None, *(next(slopes) if wanted else None for wanted in needed)
        return None, None, *gradients(Terms.of(tensors, ctx.groups), cotangent, needed)
