"""An order of evaluation as one autograd function that keeps its inputs, and little else; derivatives in parts."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from eclose.ops.precision import full_precision
from eclose.ops.xd.evaluation.inputs import Terms

PLACES = {"x": 0, "weight": 1, "bias": 2, "gates": 3, "outer": 4, "filters": 5, "inner": 6, "shifts": 7}

Kept = tuple[Tensor, ...]
"""What an order has computed and keeps for the backward pass, beside its terms."""


class Order(Protocol):
    """One way to evaluate an operation."""

    def formula(self, terms: Terms) -> Tensor:
        """The output ``(batch, c_out, *outs)``, by operations that torch differentiates."""

    def forward(self, terms: Terms) -> tuple[Tensor, Kept]:
        """The same without derivatives, in parts that need little memory; and what it wants to see again."""

    def gradients(self, terms: Terms, kept: Kept, cotangent: Tensor, needed: list[bool]) -> list[Tensor | None]:
        """Derivatives by :meth:`Terms.tensors`, where ``needed``, in such parts."""


def recomputed(order: Order, terms: Terms) -> Tensor:
    """The output of an order; the backward pass computes anew whatever the order does not keep."""
    return _Recomputed.apply(order, terms, *terms.tensors())


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
    def forward(ctx: Any, order: Order, terms: Terms, *tensors: Tensor | None) -> Tensor:
        ctx.order, ctx.groups, ctx.mask = order, terms.groups, terms.mask  # not the terms: tensors are saved
        y, kept = order.forward(terms)
        ctx.save_for_backward(*tensors, *kept)
        return y

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Any:
        needed, saved = list(ctx.needs_input_grad[2:]), ctx.saved_tensors  # checkpoints give them once
        terms, kept = Terms.of(saved[: len(needed)], ctx.groups, ctx.mask), saved[len(needed) :]
        with full_precision(cotangent.device.type):  # as in the forward pass
            if torch.is_grad_enabled():  # derivatives of derivatives
                return None, None, *differentiated(ctx.order.formula, terms, cotangent, needed)
            return None, None, *ctx.order.gradients(terms, kept, cotangent, needed)


class Gradients:
    """``needed`` says for each of :meth:`Terms.tensors` whether it gets a derivative; the flags sum that up."""

    def __init__(self, terms: Terms, needed: list[bool]) -> None:
        self.needed, self._terms, self._axes = needed, terms.tensors(), len(terms.outer)
        self._gradients: list[Tensor | None] = [None] * len(needed)
        self.x, self.weight, self.bias, self.gates = needed[:4]
        self.outer, self.filters, self.inner, self.shifts = (
            any(needed[4 + part * self._axes :][: self._axes]) for part in range(4)
        )

    def add(self, name: str, value: Tensor, block: slice | None = None) -> None:
        """To the derivative by x, weight, bias or gates; ``block``: of some frequencies of the last axis only."""
        self._add(PLACES[name], value, (..., block) if name == "bias" and block is not None else None)

    def add_matrices(self, name: str, values: list[Tensor], block: slice | None = None) -> None:
        """To those by the outer, filters or inner matrices, or the shifts, of all axes."""
        for axis, value in enumerate(values):
            place = 4 + (PLACES[name] - 4) * self._axes + axis
            if block is None or axis < self._axes - 1:
                self._add(place, value, None)
            else:
                self._add(place, value, (slice(None), block))

    def add_all(self, values: Sequence[Tensor | None]) -> None:
        """To all of them, in the order of :meth:`Terms.tensors`."""
        for place, value in enumerate(values):
            if value is not None:
                self._add(place, value, None)

    def tensors(self) -> list[Tensor | None]:
        """In the order of :meth:`Terms.tensors`."""
        return self._gradients

    def _add(self, place: int, value: Tensor, window: tuple[object, ...] | None) -> None:
        if not self.needed[place]:
            return
        gradient, like = self._gradients[place], self._terms[place]
        assert like is not None
        if gradient is None and (window is None or value.shape == like.shape):
            self._gradients[place] = value
            return
        if gradient is None:
            gradient = self._gradients[place] = torch.zeros_like(like)
        target = gradient if window is None else gradient[window]  # type: ignore[index]
        target += value
