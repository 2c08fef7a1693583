"""Signals filtered by a matrix of channels for every frequency, ``Real(K R M x)``, and the derivatives of that."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from eclose.ops.kernels import served
from eclose.ops.xd.algebra.pairs_first import analysis, but_last, derivatives, product, returned


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
    return from_spectrum(analysis(x, inner)[-1], response, outer)


def from_spectrum(spectrum: Tensor, response: Tensor, outer: Sequence[Tensor]) -> Tensor:
    """The same from the spectrum of x, ``M x``."""
    return returned(product(spectrum, response.mT), outer)[-1]


def filtered_gradients(
    x: Tensor,
    response: Tensor,
    outer: Sequence[Tensor],
    inner: Sequence[Tensor],
    cotangent: Tensor,
    wanted: Wanted,
    spectrum: Tensor | None = None,
) -> Found:
    """Derivatives of :func:`filtered`; spectra are computed anew, but for that of x where it is given (one axis)."""
    found = Found()
    back, signals = analysis(cotangent, outer), []
    if wanted.response or wanted.outer or wanted.inner:
        signals = analysis(x, inner) if spectrum is None else [x, spectrum]
    # Spectra are large: those that have been used are given up.
    output, by_signal, found.response = _products(signals.pop() if signals else None, back.pop(), response, wanted)
    if by_signal is not None:
        cotangents = (returned if wanted.x else but_last)(by_signal, inner)
        if wanted.x:
            found.x = cotangents.pop()
        if wanted.inner:
            found.inner = derivatives(signals, cotangents)
        del by_signal, cotangents
    if output is not None:
        found.outer = derivatives(back, but_last(output, outer))
    return found


def _products(
    signal: Tensor | None, cotangent: Tensor, response: Tensor, wanted: Wanted
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The spectrum of the output, and the derivatives by that of x and by the response; None where nobody needs it."""
    by_signal = wanted.x or wanted.inner
    if wanted.outer and by_signal and wanted.response and signal is not None and _has_kernel(signal, response):
        from eclose.ops.xd.kernels.frequency_product import three_products

        found = three_products(*(tensor.flatten(1, -3) for tensor in (signal, cotangent, response)))
        return found[0].view_as(cotangent), found[1].view_as(signal), found[2].view_as(response)
    return (
        product(signal, response.mT) if wanted.outer and signal is not None else None,
        product(cotangent, response, conjugate=True) if by_signal else None,
        product(cotangent.mT, signal, conjugate=True) if wanted.response and signal is not None else None,
    )


def _has_kernel(signal: Tensor, response: Tensor) -> bool:
    return min(response.shape[-2:]) > 1 and served(signal, response)
