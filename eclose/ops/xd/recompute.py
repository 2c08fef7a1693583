"""An order of evaluation as one autograd function that keeps its inputs only."""

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from eclose.ops.xd.terms import Terms


class Order(Protocol):
    """One way to evaluate an operation."""

    def formula(self, terms: Terms) -> Tensor:
        """The output ``(batch, c_out, *outs)``, by operations that torch differentiates."""

    def forward(self, terms: Terms) -> Tensor:
        """The same without derivatives, in parts that need little memory."""

    def gradients(self, terms: Terms, cotangent: Tensor, needed: list[bool]) -> list[Tensor | None]:
        """Derivatives by :meth:`Terms.tensors`, where ``needed``, in such parts."""


def recomputed(order: Order, terms: Terms) -> Tensor:
    """The output of an order; the backward pass computes all intermediate signals anew."""
    return _Recomputed.apply(order, terms.groups, terms.mask, *terms.tensors())


def differentiated(
    function: Callable[[Terms], Tensor], terms: Terms, cotangent: Tensor, needed: list[bool]
) -> list[Tensor | None]:
    """Derivatives by :meth:`Terms.tensors`, where ``needed``, by torch; they can be differentiated again."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        # Views: a tensor may depend on another of them, but only partial derivatives are asked for.
        views = [
            tensor if tensor is None else tensor.view_as(tensor) if again else tensor.detach().requires_grad_(wanted)
            for tensor, wanted in zip(terms.tensors(), needed, strict=True)
        ]
        output = function(Terms.of(views, terms.groups, terms.mask))
    chosen = [view for view, wanted in zip(views, needed, strict=True) if wanted and view is not None]
    slopes = iter(torch.autograd.grad(output, chosen, cotangent, create_graph=again, allow_unused=True))
    return [next(slopes) if wanted else None for wanted in needed]


class _Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, order: Order, groups: int, mask: Tensor | None, *tensors: Tensor | None) -> Tensor:
        ctx.order, ctx.groups, ctx.mask = order, groups, mask
        ctx.save_for_backward(*tensors)
        return order.forward(Terms.of(tensors, groups, mask))

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Any:
        terms, needed = Terms.of(ctx.saved_tensors, ctx.groups, ctx.mask), list(ctx.needs_input_grad[3:])
        if torch.is_grad_enabled():  # derivatives of derivatives
            return None, None, None, *differentiated(ctx.order.formula, terms, cotangent, needed)
        return None, None, None, *ctx.order.gradients(terms, cotangent, needed)
