"""What the orders that use shift tensors have in common: taps and channels are mixed, a few samples at a time."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from eclose.ops.xd.gradients import Gradients
from eclose.ops.xd.shifts import shift_tensors, tap_weights
from eclose.ops.xd.slopes import Slopes, Wanted
from eclose.ops.xd.spectral import spectral_bias, spectral_bias_forward, spectral_bias_gradients
from eclose.ops.xd.terms import Terms

NUMBERS = {"cpu": 2e6, "cuda": 2e8}
"""How many numbers the shifted signals of some samples may have, by kind of device."""


@dataclass(frozen=True)
class TapOrder:
    """An order that is linear in the signal, in a matrix of channels and taps, and in every shift tensor."""

    arranged: Callable[[Tensor], Tensor]
    """The matrix ``(groups, rows, columns)``, from weights ``(groups, c_out, c_in, *kernels)``."""
    applied: Callable[[Tensor, Tensor, list[Tensor]], Tensor]
    """``(batch, c_out, *outs)`` from the signal, the matrix and the shift tensors."""
    slopes: Callable[[Tensor, Tensor, list[Tensor], Tensor, Wanted], Slopes]
    """The derivatives of that, given the one by the output."""

    def formula(self, terms: Terms) -> Tensor:
        """The output ``(batch, c_out, *outs)``, by operations that torch differentiates."""
        mixing, *shifts = self._prepared(terms)
        y = self.applied(terms.x, mixing, shifts).contiguous()
        return y + spectral_bias(terms) if _apart(terms) else y

    def forward(self, terms: Terms) -> Tensor:
        """The same without derivatives, a few samples at a time."""
        mixing, *shifts = self._prepared(terms)
        y = terms.x.new_empty(len(terms.x), len(terms.weight), *[matrix.shape[1] for matrix in terms.outer])
        for chunk in chunks(terms):
            y[chunk].copy_(self.applied(terms.x[chunk], mixing, shifts))
        return y.add_(spectral_bias_forward(terms)) if _apart(terms) else y

    def gradients(self, terms: Terms, cotangent: Tensor, needed: list[bool]) -> list[Tensor | None]:
        """Derivatives by :meth:`Terms.tensors`, where ``needed``, a few samples at a time."""
        found = Gradients(terms, needed)
        with torch.enable_grad():  # what is prepared has no batch, so torch may differentiate that
            leaves = [
                tensor if tensor is None else tensor.detach().requires_grad_(wanted)
                for tensor, wanted in zip(terms.tensors(), needed, strict=True)
            ]
            prepared = self._prepared(Terms.of(leaves, terms.groups, terms.mask))
        by_x, *totals = self._summed(terms, cotangent, prepared, by_x=found.x)
        if by_x is not None:
            found.add("x", by_x)
        traced = [(now, total) for now, total in zip(prepared, totals, strict=True) if now.requires_grad]
        if traced:
            outputs, slopes = zip(*traced, strict=True)
            chosen = [leaf for leaf in leaves[1:] if leaf is not None and leaf.requires_grad]
            by_leaves = iter(torch.autograd.grad(outputs, chosen, slopes, allow_unused=True))
            found.add_all([None, *(next(by_leaves) if wanted else None for wanted in needed[1:])])
        if _apart(terms):
            spectral_bias_gradients(terms, cotangent, found)
        return found.tensors()

    def _summed(self, terms: Terms, cotangent: Tensor, prepared: list[Tensor], *, by_x: bool) -> Slopes:
        """By the signal, and by what has been prepared from all other terms."""
        wanted = Wanted(by_x, prepared[0].requires_grad, any(shift.requires_grad for shift in prepared[1:]))
        mixing, *shifts = (tensor.detach() for tensor in prepared)
        whole = torch.empty_like(terms.x, memory_format=torch.contiguous_format) if by_x else None
        totals: Slopes = [None] * len(prepared)
        for chunk in chunks(terms):
            slope, *others = self.slopes(terms.x[chunk], mixing, shifts, cotangent[chunk], wanted)
            if whole is not None and slope is not None:
                whole[chunk].copy_(slope)
            pairs = zip(totals, others, strict=True)
            totals = [new if old is None or new is None else old.add_(new) for old, new in pairs]
        return [whole, *totals]

    def _prepared(self, terms: Terms) -> list[Tensor]:
        return [self.arranged(tap_weights(terms)), *shift_tensors(terms)]


def _apart(terms: Terms) -> bool:
    """Whether the bias is a term of its own, and not one more tap."""
    return terms.bias is not None and len(terms.outer) > 1


def chunks(terms: Terms) -> list[slice]:
    """Which samples go through all steps together."""
    channels = max(terms.x.shape[1], len(terms.weight))
    pixels, taps = math.prod(terms.x.shape[2:]), math.prod(matrix.shape[2] for matrix in terms.filters)
    count = max(1, int(NUMBERS.get(terms.x.device.type, NUMBERS["cuda"]) // (2 * channels * pixels * taps)))
    return [slice(start, start + count) for start in range(0, len(terms.x), count)]
