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
from eclose.ops.xd.evaluation.autograd import PLACES, Kept
from eclose.ops.xd.evaluation.inputs import Terms, grouped, joined
from eclose.ops.xd.evaluation.merged.channels import mix_at_once, mix_gradients, mix_in_parts
from eclose.ops.xd.evaluation.merged.factors import Chain, factor_gradients, flattened

X, WEIGHT, OUTER, FILTERS, INNER = (PLACES[name] for name in ("x", "weight", "outer", "filters", "inner"))
"""Places among :meth:`Terms.tensors`."""


KEPT_SPECTRA = {"cpu": 2**21, "cuda": 0}
"""How many numbers the spectra of an operation may have that are kept for its backward pass."""


@dataclass(frozen=True, eq=False)
class MergedGeometry:
    """What the tensors do not say: the axis, where its inputs go, and how K and M are made of their factors."""

    axis: Axis
    sources: Tensor | None  # (transform,), see Axis.sources
    digits: tuple[int, int]  # how many values the high and the low digits of an index have
    outer: tuple[bool, ...]  # directions of the blocks of K
    inner: tuple[bool, ...]  # and of M

    def chains(self, terms: Terms) -> tuple[Chain, Chain]:
        """K and M."""
        return Chain.of(terms.outer[0], self.digits, self.outer), Chain.of(terms.inner[0], self.digits, self.inner)


@dataclass(frozen=True, eq=False)
class Merged:
    """The order as :class:`eclose.ops.xd.evaluation.autograd.Order`."""

    geometry: MergedGeometry

    def formula(self, terms: Terms) -> Tensor:
        """The output ``(batch, c_out, out)``, by operations that torch differentiates."""
        return self._evaluated(terms, mix_at_once)[0]

    def forward(self, terms: Terms) -> tuple[Tensor, Kept]:
        """The same without derivatives, some frequencies at a time; small spectra are kept."""
        y, *spectra = self._evaluated(terms, mix_in_parts)
        numbers = sum(spectrum.numel() for spectrum in spectra)
        return y, tuple(spectra) if numbers <= KEPT_SPECTRA.get(y.device.type, KEPT_SPECTRA["cuda"]) else ()

    def _evaluated(self, terms: Terms, mix: Callable[[Terms, Tensor], Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """The output, and the spectra before and after channels are mix_at_once."""
        terms = terms.rounded()
        outer, inner = self.geometry.chains(terms)
        x = _extended(grouped(terms.x, terms.groups), self.geometry)
        spectrum = inner.spectrum(inner.analysis(x)[-1], x.shape[:-1])
        z = mix(terms, spectrum)
        y = outer.real(outer.synthesis(z)[-1], z.shape[2:])  # (groups, batch, c_out, transform)
        return joined(y[..., self.geometry.axis.rows()]).contiguous(), spectrum, z

    def gradients(self, terms: Terms, kept: Kept, cotangent: Tensor, needed: list[bool]) -> list[Tensor | None]:
        """Derivatives by :meth:`Terms.tensors`, where ``needed``; what was not kept is computed anew."""
        terms = terms.rounded()
        x = _extended(grouped(terms.x, terms.groups), self.geometry)
        back = _returned(grouped(cotangent, terms.groups), self.geometry.axis)
        gradients = _gradients(replace(terms, x=x), kept, back, needed, self.geometry)
        by_x = gradients[X]
        gradients[X] = None if by_x is None else joined(_folded(by_x, self.geometry))
        return gradients


def _gradients(
    terms: Terms, kept: Kept, cotangent: Tensor, needed: list[bool], geometry: MergedGeometry
) -> list[Tensor | None]:
    """Derivatives by the tensors of ``terms``, whose x is ``(groups, batch, c_in, transform)`` as the cotangent is."""
    gradients: list[Tensor | None] = [None] * len(needed)
    outer, inner = geometry.chains(terms)
    chain, rows = outer.adjoint(), cotangent.shape[:-1]
    back = chain.analysis(cotangent)
    signals = [] if kept and not needed[INNER] else inner.analysis(terms.x)
    spectrum = kept[0] if kept else inner.spectrum(signals[-1], terms.x.shape[:-1])
    wanted = needed[OUTER] and not kept, needed[X] or needed[INNER], needed[WEIGHT] or needed[FILTERS]
    z, inputs, slopes = mix_gradients(terms, spectrum, chain.spectrum(back[-1], rows), wanted)
    z = kept[1] if kept else z
    if slopes is not None:
        gradients[WEIGHT], gradients[FILTERS] = slopes
    if needed[OUTER] and z is not None:
        by_adjoint = factor_gradients(back, outer.synthesis(z))
        gradients[OUTER] = flattened([adjoint(slope) for slope in reversed(by_adjoint)])
    del spectrum, z, back  # these are large
    if inputs is not None:
        chain = inner.adjoint()
        cotangents = chain.synthesis(inputs)
        if needed[X]:
            gradients[X] = chain.real(cotangents[-1], terms.x.shape[:-1])
        if needed[INNER]:
            gradients[INNER] = flattened(factor_gradients(signals, cotangents))
    return gradients


def _extended(x: Tensor, geometry: MergedGeometry) -> Tensor:  # (..., size)
    """``(..., transform)``."""
    axis, sources = geometry.axis, geometry.sources
    if sources is None:
        return F.pad(x, (0, axis.transform - axis.size)) if axis.transform > axis.size else x
    behind, before = sources[axis.size : axis.size + axis.right], sources[axis.transform - axis.left :]
    between = x.new_zeros(*x.shape[:-1], axis.transform - axis.size - axis.left - axis.right)
    return torch.cat([x, x.index_select(-1, behind), between, x.index_select(-1, before)], dim=-1)


def _folded(x: Tensor, geometry: MergedGeometry) -> Tensor:  # (..., transform)
    """The adjoint of :func:`_extended`: ``(..., size)``."""
    axis, folded = geometry.axis, x[..., : geometry.axis.size]
    if geometry.sources is None:
        return folded
    behind, before = slice(axis.size, axis.size + axis.right), slice(axis.transform - axis.left, None)
    for part in (behind, before):
        folded = folded.index_add(-1, geometry.sources[part], x[..., part])
    return folded


def _returned(y: Tensor, axis: Axis) -> Tensor:  # (..., out)
    """``(..., transform)``: zero where K has no row."""
    if axis.out == axis.transform:
        return y
    extended = y.new_zeros(*y.shape[:-1], axis.transform)
    extended[..., axis.rows()] = y
    return extended
