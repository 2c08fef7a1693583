"""What the orders that use shift tensors have in common: taps and channels are mixed, a few samples at a time."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from eclose.ops.xd.evaluation.autograd import Gradients, Kept
from eclose.ops.xd.evaluation.inputs import Terms
from eclose.ops.xd.evaluation.shifts.bias import spectral_bias, spectral_bias_forward, spectral_bias_gradients

CHUNK_NUMBERS = {"cpu": 2e6, "cuda": 2e8}
"""How many numbers the shifted signals of some samples may have, by kind of device."""

ShiftGradients = list[Tensor | None]
"""By the signal, by the matrix of channels and taps, and by the shift tensor of every axis."""


@dataclass(frozen=True)
class ShiftNeeds:
    """By the signal, by the matrix of channels and taps, by the shift tensors."""

    x: bool
    mixing: bool
    shifts: bool


@dataclass(frozen=True)
class ShiftOrder:
    """An order that is linear in the signal, in a matrix of channels and taps, and in every shift tensor."""

    arranged: Callable[[Tensor], Tensor]
    """The matrix ``(groups, rows, columns)``, from weights ``(groups, c_out, c_in, *kernels)``."""
    disarranged: Callable[[Tensor, torch.Size], Tensor]
    """The weights of a shape from the matrix."""
    applied: Callable[[Tensor, Tensor, list[Tensor]], Tensor]
    """``(batch, c_out, *outs)`` from the signal, the matrix and the shift tensors."""
    applied_gradients: Callable[[Tensor, Tensor, list[Tensor], Tensor, ShiftNeeds], ShiftGradients]
    """The derivatives of that, given the one by the output."""

    def formula(self, terms: Terms) -> Tensor:
        """The output ``(batch, c_out, *outs)``, by operations that torch differentiates."""
        y = self.applied(terms.x, self._mixing(terms), _rounded(terms)).contiguous()
        return y if terms.bias is None else y + spectral_bias(terms)

    def forward(self, terms: Terms) -> tuple[Tensor, Kept]:
        """The same without derivatives, a few samples at a time."""
        mixing, shifts, y = self._mixing(terms), _rounded(terms), None
        for chunk in chunks(terms):
            y = _placed(y, self.applied(terms.x[chunk], mixing, shifts), chunk, len(terms.x))
        assert y is not None
        return y if terms.bias is None else y.add_(spectral_bias_forward(terms)), ()

    def gradients(self, terms: Terms, kept: Kept, cotangent: Tensor, needed: list[bool]) -> list[Tensor | None]:
        """Derivatives by :meth:`Terms.tensors`, where ``needed``, a few samples at a time."""
        gradients = Gradients(terms, needed)
        needs = ShiftNeeds(gradients.x, gradients.weight, gradients.shifts)
        by_x, by_mixing, *by_shifts = self._summed(terms, cotangent, needs)
        if by_x is not None:
            gradients.add("x", by_x)
        if by_mixing is not None:
            by_weight = self.disarranged(by_mixing.contiguous(), _by_group(terms).shape)
            gradients.add("weight", by_weight.reshape(terms.weight.shape))
        if needs.shifts:
            masked = [by for by in by_shifts if by is not None]
            gradients.add_matrices(
                "shifts", [*masked[:-1], masked[-1] if terms.mask is None else masked[-1] * terms.mask]
            )
        if terms.bias is not None:
            spectral_bias_gradients(terms, cotangent, gradients)
        return gradients.tensors()

    def _summed(self, terms: Terms, cotangent: Tensor, needs: ShiftNeeds) -> ShiftGradients:
        """By the signal, by the matrix and by the shift tensors."""
        mixing, shifts, by_x = self._mixing(terms), _rounded(terms), None
        totals: ShiftGradients = [None] * (1 + len(shifts))
        for chunk in chunks(terms):
            slope, *others = self.applied_gradients(terms.x[chunk], mixing, shifts, cotangent[chunk], needs)
            by_x = None if slope is None else _placed(by_x, slope, chunk, len(terms.x))
            pairs = zip(totals, others, strict=True)
            totals = [new if old is None or new is None else old.add_(new) for old, new in pairs]
        return [by_x, *totals]

    def _mixing(self, terms: Terms) -> Tensor:
        return self.arranged(_by_group(terms))


def _by_group(terms: Terms) -> Tensor:
    """The weight as ``(groups, c_out, c_in, *kernels)``."""
    return terms.weight.view(terms.groups, -1, *terms.weight.shape[1:])


def _placed(whole: Tensor | None, part: Tensor, chunk: slice, batch: int) -> Tensor:
    """The whole with the samples of a chunk in their place; a chunk of all samples is the whole."""
    if len(part) == batch:
        return part.contiguous()
    whole = part.new_empty(batch, *part.shape[1:]) if whole is None else whole
    whole[chunk].copy_(part)
    return whole


def _rounded(terms: Terms) -> list[Tensor]:
    """The shift tensors as they count, in the precision of the signal."""
    *others, last = terms.shifts
    last = last if terms.mask is None else last * terms.mask
    dtype = terms.x.dtype
    return [*others, last] if last.dtype == dtype else [shift.to(dtype) for shift in (*others, last)]


def chunks(terms: Terms) -> list[slice]:
    """Which samples go through all steps together."""
    channels = max(terms.x.shape[1], len(terms.weight))
    pixels, taps = math.prod(terms.x.shape[2:]), math.prod(terms.weight.shape[2:])
    count = max(1, int(CHUNK_NUMBERS.get(terms.x.device.type, CHUNK_NUMBERS["cuda"]) // (2 * channels * pixels * taps)))
    return [slice(start, start + count) for start in range(0, len(terms.x), count)]
