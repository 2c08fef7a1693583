"""Frequency order: M x, one product of channels for every frequency, K. Best where kernels or channels are many.

The operation is a sum over the frequencies of the last axis, so no spectrum need be whole: a block of frequencies goes
through all steps while it lies in the caches, and filters of all frequencies never exist at once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from eclose.ops.kernels import served
from eclose.ops.xd.algebra.pairs_first import analysis, but_last, complex_product, matrix_gradients, returned
from eclose.ops.xd.evaluation.autograd import Gradients, Kept
from eclose.ops.xd.evaluation.inputs import Terms, grouped, joined
from eclose.ops.xd.gates import plus_gated_bias

BLOCK_NUMBERS = {"cpu": 6e6, "cuda": 2e8}
"""How many numbers the spectra of a block may have, by kind of device."""

WHOLE = slice(None)
"""All frequencies."""

KEPT_SPECTRUM = 2**21
"""How many numbers the spectrum of x may have that is kept for the backward pass."""


class Frequency:
    """The order as :class:`eclose.ops.xd.evaluation.autograd.Order`."""

    def formula(self, terms: Terms) -> Tensor:
        """The output ``(batch, c_out, *outs)``, by operations that torch differentiates."""
        return _whole(terms.rounded())[0]

    def forward(self, terms: Terms) -> tuple[Tensor, Kept]:
        """The same without derivatives, in blocks of frequencies; a small spectrum of one axis is kept."""
        terms = terms.rounded()
        first, *others = blocks(terms)
        y, spectrum = _whole(restricted(terms, first))
        for block in others:
            y += _whole(restricted(terms, block))[0]
        small = not others and len(terms.inner) == 1 and spectrum.numel() <= KEPT_SPECTRUM
        return y, (spectrum,) if small else ()

    def gradients(self, terms: Terms, kept: Kept, cotangent: Tensor, needed: list[bool]) -> list[Tensor | None]:
        """Derivatives by :meth:`Terms.tensors`, where ``needed``, in blocks of frequencies."""
        terms = terms.rounded()
        gradients = Gradients(terms, needed)
        x, cotangent = grouped(terms.x, terms.groups), grouped(cotangent, terms.groups)
        for block in blocks(terms):
            _add_block(gradients, block, restricted(terms, block), x, cotangent, *kept)
        return gradients.tensors()


def _whole(terms: Terms) -> tuple[Tensor, Tensor]:
    """The output, and the spectrum of x."""
    response = _biased(_responses(terms)[-1], terms)
    spectrum = analysis(grouped(terms.x, terms.groups), terms.inner)[-1]
    return joined(from_spectrum(spectrum, response, terms.outer)), spectrum


def _add_block(
    gradients: Gradients, block: slice, terms: Terms, x: Tensor, cotangent: Tensor, spectrum: Tensor | None = None
) -> None:
    responses = _responses(terms)
    by_response = gradients.weight or gradients.bias or gradients.gates or gradients.filters
    needs = FilterNeeds(gradients.x, by_response, gradients.outer, gradients.inner)
    response = _biased(responses[-1], terms)
    parts = filtered_gradients(x, response, terms.outer, terms.inner, cotangent, needs, spectrum)
    if parts.x is not None:
        gradients.add("x", joined(parts.x))
    gradients.add_matrices("outer", parts.outer, block)
    gradients.add_matrices("inner", parts.inner, block)
    if parts.response is None:
        return
    flat = parts.response.flatten(0, -4).flatten(1)  # (2 * frequencies, c_out * c_in / groups)
    if gradients.bias:
        by_bias = flat.sum(1) if terms.gates is None else terms.gates.flatten(-2) @ flat.mT
        gradients.add("bias", by_bias.view(*by_bias.shape[:-1], *parts.response.shape[:-3]), block)
    if gradients.gates and terms.bias is not None and terms.gates is not None:
        by_gates = terms.bias.flatten(3 - parts.response.dim()) @ flat
        gradients.add("gates", by_gates.view_as(terms.gates))
    if gradients.weight or gradients.filters:
        taps = (returned if gradients.weight else but_last)(parts.response, terms.filters)
        if gradients.weight:
            gradients.add("weight", taps.pop().reshape(terms.weight.shape))
        if gradients.filters:
            gradients.add_matrices("filters", matrix_gradients(responses[:-1], taps), block)


def _responses(terms: Terms) -> list[Tensor]:
    """All steps of ``L w``, the last one ``(2, *transforms, groups, c_out, c_in)``."""
    return analysis(terms.weight.view(terms.groups, -1, *terms.weight.shape[1:]), terms.filters)


def _biased(response: Tensor, terms: Terms) -> Tensor:  # (2, *transforms, groups, c_out, c_in)
    """``L w_ij + C_ij b``."""
    if terms.bias is None:
        return response
    if terms.gates is None:
        return response + terms.bias[(...,) + (None,) * 3]
    flat, bias = response.flatten(0, -4).flatten(1), terms.bias.flatten(3 - response.dim())
    return plus_gated_bias(flat, bias, terms.gates.flatten(-2)).view_as(response)


@dataclass(frozen=True)
class FilterNeeds:
    """Which derivatives are asked for."""

    x: bool
    response: bool
    outer: bool
    inner: bool


@dataclass
class FilterGradients:
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
    return returned(complex_product(spectrum, response.mT), outer)[-1]


def filtered_gradients(
    x: Tensor,
    response: Tensor,
    outer: Sequence[Tensor],
    inner: Sequence[Tensor],
    cotangent: Tensor,
    needs: FilterNeeds,
    spectrum: Tensor | None = None,
) -> FilterGradients:
    """Derivatives of :func:`filtered`; spectra are computed anew, but for that of x where it is given (one axis)."""
    gradients = FilterGradients()
    back, signals = analysis(cotangent, outer), []
    if needs.response or needs.outer or needs.inner:
        signals = analysis(x, inner) if spectrum is None else [x, spectrum]
    # Spectra are large: those that have been used are given up.
    output, by_signal, gradients.response = _products(signals.pop() if signals else None, back.pop(), response, needs)
    if by_signal is not None:
        cotangents = (returned if needs.x else but_last)(by_signal, inner)
        if needs.x:
            gradients.x = cotangents.pop()
        if needs.inner:
            gradients.inner = matrix_gradients(signals, cotangents)
        del by_signal, cotangents
    if output is not None:
        gradients.outer = matrix_gradients(back, but_last(output, outer))
    return gradients


def _products(
    signal: Tensor | None, cotangent: Tensor, response: Tensor, needs: FilterNeeds
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The spectrum of the output, and the derivatives by that of x and by the response; None where nobody needs it."""
    by_signal = needs.x or needs.inner
    if needs.outer and by_signal and needs.response and signal is not None and _has_kernel(signal, response):
        from eclose.ops.xd.kernels.frequency_product import three_products

        products = three_products(*(tensor.flatten(1, -3) for tensor in (signal, cotangent, response)))
        return products[0].view_as(cotangent), products[1].view_as(signal), products[2].view_as(response)
    return (
        complex_product(signal, response.mT) if needs.outer and signal is not None else None,
        complex_product(cotangent, response, conjugate=True) if by_signal else None,
        complex_product(cotangent.mT, signal, conjugate=True) if needs.response and signal is not None else None,
    )


def _has_kernel(signal: Tensor, response: Tensor) -> bool:
    return min(response.shape[-2:]) > 1 and served(signal, response)


def blocks(terms: Terms, filters: bool = True) -> list[slice]:
    """Slices of the frequencies of the last axis; ``filters``: every frequency has filters for pairs of channels."""
    *others, last = [matrix.shape[1] for matrix in terms.inner]
    (batch, inputs), (outputs, each) = terms.x.shape[:2], terms.weight.shape[:2]
    signals = batch * (inputs + outputs)
    pairs = 2 * outputs * each if filters else 0  # and as many derivatives
    numbers = 2.0 * math.prod(others) * last * (signals + pairs)
    count = min(last, math.ceil(numbers / BLOCK_NUMBERS.get(terms.x.device.type, BLOCK_NUMBERS["cuda"])))
    if count == 1:
        return [WHOLE]
    size = math.ceil(last / count)
    return [slice(start, start + size) for start in range(0, last, size)]


def restricted(terms: Terms, block: slice) -> Terms:
    """The operation on some frequencies of the last axis alone."""
    if block == WHOLE:
        return terms
    return replace(
        terms,
        bias=None if terms.bias is None else terms.bias[..., block],
        outer=[*terms.outer[:-1], terms.outer[-1][:, block]],
        filters=[*terms.filters[:-1], terms.filters[-1][:, block]],
        inner=[*terms.inner[:-1], terms.inner[-1][:, block]],
    )
