"""An order of evaluation as one autograd function that keeps its inputs only."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from eclose.ops.xd.terms import Terms

Order = Callable[[Terms], Tensor]
Gradients = Callable[[Terms, Tensor, list[bool]], list[Tensor | None]]


def recomputed(order: Order, terms: Terms, gradients: Gradients | None = None) -> Tensor:
    """The output of an order; the backward pass computes all intermediate signals anew.

    ``gradients`` are derivatives by :meth:`Terms.tensors`; without them torch differentiates the order.
    """
    if torch.compiler.is_compiling():  # the compiler decides by itself what to keep
        return order(terms)
    return _Recomputed.apply(order, gradients, terms.groups, terms.mask, *terms.tensors())


class _Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, order: Order, gradients: Gradients | None, groups: int, mask: Tensor | None, *tensors: Tensor | None
    ) -> Tensor:
        ctx.order, ctx.gradients, ctx.groups, ctx.mask = order, gradients, groups, mask
        ctx.save_for_backward(*tensors)
        return order(Terms.of(tensors, groups, mask))

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Any:
        tensors, needed = ctx.saved_tensors, list(ctx.needs_input_grad[4:])
        if ctx.gradients is not None and not torch.is_grad_enabled():
            return None, None, None, None, *ctx.gradients(Terms.of(tensors, ctx.groups, ctx.mask), cotangent, needed)
        again = torch.is_grad_enabled()  # derivatives of derivatives
        with torch.enable_grad():
            # Views: a tensor may depend on another of them, but only partial derivatives are asked for.
            views = [
                tensor
                if tensor is None
                else tensor.view_as(tensor)
                if again
                else tensor.detach().requires_grad_(wanted)
                for tensor, wanted in zip(tensors, needed, strict=True)
            ]
            chosen = [view for view, wanted in zip(views, needed, strict=True) if wanted and view is not None]
            output = ctx.order(Terms.of(views, ctx.groups, ctx.mask))
        slopes = iter(torch.autograd.grad(output, chosen, cotangent, create_graph=again, allow_unused=True))
        return None, None, None, None, *(next(slopes) if wanted else None for wanted in needed)
