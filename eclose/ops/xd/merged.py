"""Merged order: frequency order on one long axis, without a dense matrix and without the spectra of all filters.

K and M are applied as chains of their merged factors, and of L only the columns of the taps are made. In the
:class:`Terms` of this order the entries of K, L and M, ``(depth, entries, 2)`` each, stand in place of dense forms.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from eclose.ops.kaleidoscope import KMatrix
from eclose.ops.kaleidoscope.sizes import Radices
from eclose.ops.xd.bands import mixed, mixing_gradients
from eclose.ops.xd.chains import Chain, derivatives
from eclose.ops.xd.geometry import Axis
from eclose.ops.xd.terms import Terms
from eclose.ops.xd.transforms import adjoint, turned

Prepared = tuple[Tensor, Tensor, Chain, Chain]
"""Signal ``(transform, groups, batch, c_in)``, columns of L ``(2, transform, kernel)``, K and M."""

X, K, L, M = 0, 4, 5, 6
"""Places among :meth:`Terms.tensors`."""


@dataclass(frozen=True, eq=False)
class Form:
    """What the tensors do not say: the axis, how entries make matrices, where inputs and taps go."""

    axis: Axis
    radices: Radices
    increasing: tuple[bool, ...]  # of K, L and M
    columns: Tensor  # of L, (kernel,)
    sources: Tensor | None  # (transform,), see Axis.sources
    doubled: bool = False  # whether there are taps of i L behind those of L


@dataclass(frozen=True, eq=False)
class Merged:
    """The order as :class:`eclose.ops.xd.recompute.Order`."""

    form: Form

    def formula(self, terms: Terms) -> Tensor:
        """The output ``(batch, c_out, out)``, by operations that torch differentiates."""
        signal, filters, outer, inner = _prepared(terms, self.form)
        z = mixed(terms, filters, inner.analysis(signal)[-1])
        y = outer.real(outer.synthesis(z)[-1], z.shape[2:])  # (transform, groups, batch, c_out)
        return y[self.form.axis.rows()].permute(2, 1, 3, 0).flatten(1, 2).contiguous()

    def forward(self, terms: Terms) -> Tensor:
        """The same; filters are never there all at once."""
        return self.formula(terms)

    def gradients(self, terms: Terms, cotangent: Tensor, needed: list[bool]) -> list[Tensor | None]:
        """Derivatives by :meth:`Terms.tensors`, where ``needed``; all signals are computed anew."""
        return _gradients(terms, cotangent, needed, self.form)


def _gradients(terms: Terms, cotangent: Tensor, needed: list[bool], form: Form) -> list[Tensor | None]:
    """Torch differentiates what is cheap: from x and the entries to the signal, the factors and the columns of L."""
    leaves = [None if tensor is None else tensor.detach() for tensor in terms.tensors()]
    cheap = [place for place in (X, K, L, M) if needed[place]]
    inputs = [leaf.requires_grad_() for place in cheap if (leaf := leaves[place]) is not None]
    terms = Terms.of(leaves, terms.groups)
    with torch.enable_grad():
        prepared = _prepared(terms, form)
    found, ends = _slopes(terms, prepared, _returned(cotangent, terms, form), needed)
    if cheap:
        # A transform of one stage has a constant factor.
        outputs, cotangents = zip(*(end for end in ends if end[0].requires_grad), strict=True)
        for place, slope in zip(cheap, torch.autograd.grad(outputs, inputs, cotangents), strict=True):
            found[place] = slope
    return found


def _slopes(
    terms: Terms, prepared: Prepared, cotangent: Tensor, needed: list[bool]
) -> tuple[list[Tensor | None], list[tuple[Tensor, Tensor]]]:
    """Derivatives by weight, b and C, at their places in the list of all, and by what was prepared, along with it."""
    signal, filters, outer, inner = prepared
    signals, back = inner.analysis(signal), outer.adjoint().analysis(cotangent)
    wanted = needed[K], needed[X] or needed[M], any(needed[X + 1 : K]) or needed[L]
    z, inputs, (*slopes, by_columns) = mixing_gradients(terms, filters, signals.pop(), back.pop(), wanted)
    ends = [(filters, by_columns)] if needed[L] and by_columns is not None else []
    if z is not None:
        by_adjoint = derivatives(back, outer.synthesis(z))
        ends += zip(outer.factors, map(adjoint, reversed(by_adjoint)), strict=True)
    del z, back  # spectra are large
    if inputs is not None:
        chain = inner.adjoint()
        cotangents = chain.synthesis(inputs)
        if needed[X]:
            ends.append((signal, chain.real(cotangents[-1], signal.shape[1:])))
        if needed[M]:
            ends += zip(inner.factors, derivatives(signals, cotangents), strict=True)
    return [None, *slopes, None, None, None], ends


def _prepared(terms: Terms, form: Form) -> Prepared:
    entries = (*terms.outer, *terms.filters, *terms.inner)
    matrices = [KMatrix(part, form.radices, up) for part, up in zip(entries, form.increasing, strict=True)]
    units = entries[1].new_zeros(form.axis.transform, form.axis.kernel).scatter_(0, form.columns.unsqueeze(0), 1)
    outer, filters, inner = (Chain.of(matrix) for matrix in matrices)
    columns = filters.analysis(units)[-1]
    columns = torch.cat([columns, turned(columns)], dim=-1) if form.doubled else columns
    signal = _spread(_extended(terms.x, form), terms.groups).contiguous()
    return signal, columns.to(signal.dtype), outer.to(signal.dtype), inner.to(signal.dtype)


def _extended(x: Tensor, form: Form) -> Tensor:  # (batch, c_in, size)
    """``(batch, c_in, transform)``."""
    axis = form.axis
    if form.sources is None:
        return F.pad(x, (0, axis.transform - axis.size)) if axis.transform > axis.size else x
    behind, before = form.sources[axis.size : axis.size + axis.right], form.sources[axis.transform - axis.left :]
    between = x.new_zeros(*x.shape[:2], axis.transform - axis.size - axis.left - axis.right)
    return torch.cat([x, x.index_select(2, behind), between, x.index_select(2, before)], dim=2)


def _returned(cotangent: Tensor, terms: Terms, form: Form) -> Tensor:  # (batch, c_out, out)
    """``(transform, groups, batch, c_out)``: zero where K has no row."""
    rows = _spread(cotangent, terms.groups)
    found = rows.new_zeros(form.axis.transform, *rows.shape[1:])
    found[form.axis.rows()] = rows
    return found


def _spread(x: Tensor, groups: int) -> Tensor:  # (batch, groups * channels, n)
    """``(n, groups, batch, channels)``."""
    return x.unflatten(1, (groups, -1)).permute(3, 1, 0, 2)
