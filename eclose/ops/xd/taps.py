"""What the orders that use shift tensors have in common: taps and channels are mixed, a few samples at a time."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from eclose.ops.xd.gradients import Gradients
from eclose.ops.xd.recompute import Kept
from eclose.ops.xd.shifts import tap_weights
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
        y = self.applied(terms.x, self._mixing(terms), _rounded(terms)).contiguous()
        return y + spectral_bias(terms) if _apart(terms) else y

    def forward(self, terms: Terms) -> tuple[Tensor, Kept]:
        """The same without derivatives, a few samples at a time."""
        mixing, shifts = self._mixing(terms), _rounded(terms)
        y = terms.x.new_empty(len(terms.x), len(terms.weight), *[shift.shape[2] for shift in shifts])
        for chunk in chunks(terms):
            y[chunk].copy_(self.applied(terms.x[chunk], mixing, shifts))
        return y.add_(spectral_bias_forward(terms)) if _apart(terms) else y, ()

    def gradients(self, terms: Terms, kept: Kept, cotangent: Tensor, needed: list[bool]) -> list[Tensor | None]:
        """Derivatives by :meth:`Terms.tensors`, where ``needed``, a few samples at a time."""
        found = Gradients(terms, needed)
        wanted = Wanted(found.x, found.weight or (found.gates and not _apart(terms)), found.shifts)
        by_x, by_mixing, *by_shifts = self._summed(terms, cotangent, wanted)
        if by_x is not None:
            found.add("x", by_x)
        if by_mixing is not None:
            self._add_weights(found, terms, by_mixing)
        if wanted.shifts:
            masked = [by for by in by_shifts if by is not None]
            found.add_matrices("shifts", [*masked[:-1], masked[-1] if terms.mask is None else masked[-1] * terms.mask])
        if _apart(terms):
            spectral_bias_gradients(terms, cotangent, found)
        return found.tensors()

    def _add_weights(self, found: Gradients, terms: Terms, cotangent: Tensor) -> None:
        """By weight and C, to which torch finds the way back: they have no batch."""
        given = {"weight": terms.weight} if terms.gates is None else {"weight": terms.weight, "gates": terms.gates}
        leaves = {name: tensor.detach().requires_grad_() for name, tensor in given.items()}
        with torch.enable_grad():
            mixing = self._mixing(replace(terms, weight=leaves["weight"], gates=leaves.get("gates")))
        chosen = [name for name in leaves if getattr(found, name) and not (name == "gates" and _apart(terms))]
        slopes = torch.autograd.grad(mixing, [leaves[name] for name in chosen], cotangent)
        for name, slope in zip(chosen, slopes, strict=True):
            found.add(name, slope)

    def _summed(self, terms: Terms, cotangent: Tensor, wanted: Wanted) -> Slopes:
        """By the signal, by the matrix and by the shift tensors."""
        mixing, shifts = self._mixing(terms), _rounded(terms)
        whole = torch.empty_like(terms.x, memory_format=torch.contiguous_format) if wanted.x else None
        totals: Slopes = [None] * (1 + len(shifts))
        for chunk in chunks(terms):
            slope, *others = self.slopes(terms.x[chunk], mixing, shifts, cotangent[chunk], wanted)
            if whole is not None and slope is not None:
                whole[chunk].copy_(slope)
            pairs = zip(totals, others, strict=True)
            totals = [new if old is None or new is None else old.add_(new) for old, new in pairs]
        return [whole, *totals]

    def _mixing(self, terms: Terms) -> Tensor:
        return self.arranged(tap_weights(terms))


def _rounded(terms: Terms) -> list[Tensor]:
    """The shift tensors as they count, in the precision of the signal."""
    *others, last = terms.shifts
    last = last if terms.mask is None else last * terms.mask
    return [shift.to(terms.x.dtype) for shift in (*others, last)]


def _apart(terms: Terms) -> bool:
    """Whether the bias is a term of its own, and not one more tap."""
    return terms.bias is not None and len(terms.outer) > 1


def chunks(terms: Terms) -> list[slice]:
    """Which samples go through all steps together."""
    channels = max(terms.x.shape[1], len(terms.weight))
    pixels, taps = math.prod(terms.x.shape[2:]), math.prod(terms.weight.shape[2:])
    count = max(1, int(NUMBERS.get(terms.x.device.type, NUMBERS["cuda"]) // (2 * channels * pixels * taps)))
    return [slice(start, start + count) for start in range(0, len(terms.x), count)]
