"""Merged order: frequency order on one long axis, without a dense matrix and without the spectra of all filters.

K and M are applied as chains of their merged factors, and of L only the columns of the taps are made. In the
:class:`Terms` of this order the factors of K and of M, one behind the other, ``(2, numbers)``, stand in place of dense
matrices.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from eclose.ops.xd.algebra.pairs_first import adjoint
from eclose.ops.xd.axes.axis import Axis
from eclose.ops.xd.evaluation.autograd import Kept
from eclose.ops.xd.evaluation.gradients import PLACES
from eclose.ops.xd.evaluation.inputs import Terms, grouped, joined
from eclose.ops.xd.evaluation.merged.channels import mixed, mixed_in_parts, mixing_gradients
from eclose.ops.xd.evaluation.merged.factors import Chain, derivatives, flattened

X, WEIGHT, OUTER, FILTERS, INNER = (PLACES[name] for name in ("x", "weight", "outer", "filters", "inner"))
"""Places among :meth:`Terms.tensors`."""


KEPT = {"cpu": 2**21, "cuda": 0}
"""How many numbers the spectra of an operation may have that are kept for its backward pass."""


@dataclass(frozen=True, eq=False)
class Form:
    """What the tensors do not say: the axis, where its inputs go, and how K and M are made of their factors."""

    axis: Axis
    sources: Tensor | None  # (transform,), see Axis.sources
    digits: tuple[int, int]  # how many values the high and the low digits of an index have
    outer: tuple[bool, ...]  # orders of the blocks of K
    inner: tuple[bool, ...]  # and of M

    def chains(self, terms: Terms) -> tuple[Chain, Chain]:
        """K and M."""
        return Chain.of(terms.outer[0], self.digits, self.outer), Chain.of(terms.inner[0], self.digits, self.inner)


@dataclass(frozen=True, eq=False)
class Merged:
    """The order as :class:`eclose.ops.xd.evaluation.autograd.Order`."""

    form: Form

    def formula(self, terms: Terms) -> Tensor:
        """The output ``(batch, c_out, out)``, by operations that torch differentiates."""
        return self._evaluated(terms, mixed)[0]

    def forward(self, terms: Terms) -> tuple[Tensor, Kept]:
        """The same without derivatives, some frequencies at a time; small spectra are kept."""
        y, *spectra = self._evaluated(terms, mixed_in_parts)
        numbers = sum(spectrum.numel() for spectrum in spectra)
        return y, tuple(spectra) if numbers <= KEPT.get(y.device.type, KEPT["cuda"]) else ()

    def _evaluated(self, terms: Terms, mix: Callable[[Terms, Tensor], Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """The output, and the spectra before and after channels are mixed."""
        terms = terms.rounded()
        outer, inner = self.form.chains(terms)
        x = _extended(grouped(terms.x, terms.groups), self.form)
        spectrum = inner.spectrum(inner.analysis(x)[-1], x.shape[:-1])
        z = mix(terms, spectrum)
        y = outer.real(outer.synthesis(z)[-1], z.shape[2:])  # (groups, batch, c_out, transform)
        return joined(y[..., self.form.axis.rows()]).contiguous(), spectrum, z

    def gradients(self, terms: Terms, kept: Kept, cotangent: Tensor, needed: list[bool]) -> list[Tensor | None]:
        """Derivatives by :meth:`Terms.tensors`, where ``needed``; what was not kept is computed anew."""
        terms = terms.rounded()
        x = _extended(grouped(terms.x, terms.groups), self.form)
        back = _returned(grouped(cotangent, terms.groups), self.form.axis)
        found = _slopes(replace(terms, x=x), kept, back, needed, self.form)
        by_x = found[X]
        found[X] = None if by_x is None else joined(_folded(by_x, self.form))
        return found


def _slopes(terms: Terms, kept: Kept, cotangent: Tensor, needed: list[bool], form: Form) -> list[Tensor | None]:
    """Derivatives by the tensors of ``terms``, whose x is ``(groups, batch, c_in, transform)`` as the cotangent is."""
    found: list[Tensor | None] = [None] * len(needed)
    outer, inner = form.chains(terms)
    chain, rows = outer.adjoint(), cotangent.shape[:-1]
    back = chain.analysis(cotangent)
    signals = [] if kept and not needed[INNER] else inner.analysis(terms.x)
    spectrum = kept[0] if kept else inner.spectrum(signals[-1], terms.x.shape[:-1])
    wanted = needed[OUTER] and not kept, needed[X] or needed[INNER], needed[WEIGHT] or needed[FILTERS]
    z, inputs, slopes = mixing_gradients(terms, spectrum, chain.spectrum(back[-1], rows), wanted)
    z = kept[1] if kept else z
    if slopes is not None:
        found[WEIGHT], found[FILTERS] = slopes
    if needed[OUTER] and z is not None:
        by_adjoint = derivatives(back, outer.synthesis(z))
        found[OUTER] = flattened([adjoint(slope) for slope in reversed(by_adjoint)])
    del spectrum, z, back  # these are large
    if inputs is not None:
        chain = inner.adjoint()
        cotangents = chain.synthesis(inputs)
        if needed[X]:
            found[X] = chain.real(cotangents[-1], terms.x.shape[:-1])
        if needed[INNER]:
            found[INNER] = flattened(derivatives(signals, cotangents))
    return found


def _extended(x: Tensor, form: Form) -> Tensor:  # (..., size)
    """``(..., transform)``."""
    axis = form.axis
    if form.sources is None:
        return F.pad(x, (0, axis.transform - axis.size)) if axis.transform > axis.size else x
    behind, before = form.sources[axis.size : axis.size + axis.right], form.sources[axis.transform - axis.left :]
    between = x.new_zeros(*x.shape[:-1], axis.transform - axis.size - axis.left - axis.right)
    return torch.cat([x, x.index_select(-1, behind), between, x.index_select(-1, before)], dim=-1)


def _folded(x: Tensor, form: Form) -> Tensor:  # (..., transform)
    """The adjoint of :func:`_extended`: ``(..., size)``."""
    axis, found = form.axis, x[..., : form.axis.size]
    if form.sources is None:
        return found
    behind, before = slice(axis.size, axis.size + axis.right), slice(axis.transform - axis.left, None)
    for part in (behind, before):
        found = found.index_add(-1, form.sources[part], x[..., part])
    return found


def _returned(y: Tensor, axis: Axis) -> Tensor:  # (..., out)
    """``(..., transform)``: zero where K has no row."""
    if axis.out == axis.transform:
        return y
    found = y.new_zeros(*y.shape[:-1], axis.transform)
    found[..., axis.rows()] = y
    return found
