"""Signals filtered by a matrix of channels for every frequency, ``Real(K R M x)``, and the derivatives of that."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from eclose.ops.xd.transforms import analysis, but_last, derivatives, product, returned


@dataclass(frozen=True)
class Wanted:
    """Which derivatives are asked for."""

    x: bool
    response: bool
    outer: bool
    inner: bool


@dataclass
class Found:
    """Derivatives; None, or an empty list, where nobody asked."""

    x: Tensor | None = None
    response: Tensor | None = None
    outer: list[Tensor] = field(default_factory=list)
    inner: list[Tensor] = field(default_factory=list)


def filtered(
    x: Tensor,  # (groups, batch, c_in, *sizes)
    response: Tensor,  # (2, *transforms, groups, c_out, c_in)
    outer: Sequence[Tensor],  # the adjoint of K
    inner: Sequence[Tensor],
) -> Tensor:
    """``(groups, batch, c_out, *outs)``, by operations that torch differentiates."""
    return returned(product(analysis(x, inner)[-1], response.mT), outer)[-1]


def filtered_gradients(
    x: Tensor, response: Tensor, outer: Sequence[Tensor], inner: Sequence[Tensor], cotangent: Tensor, wanted: Wanted
) -> Found:
    """Derivatives of :func:`filtered`; the spectra are computed anew."""
    found = Found()
    back = analysis(cotangent, outer)
    if wanted.x or wanted.inner:
        spectrum = product(back[-1], response, conjugate=True)
    signals = analysis(x, inner) if wanted.response or wanted.outer or wanted.inner else []
    if wanted.x or wanted.inner:
        cotangents = (returned if wanted.x else but_last)(spectrum, inner)
        del spectrum
        if wanted.x:
            found.x = cotangents.pop()
        if wanted.inner:
            found.inner = derivatives(signals, cotangents)
        del cotangents
    if wanted.outer:
        found.outer = derivatives(back, but_last(product(signals[-1], response.mT), outer))
    if wanted.response:
        found.response = product(back[-1].mT, signals[-1], conjugate=True)
    return found
