"""Frequency order: M x, one product of channels for every frequency, K. Best where kernels or channels are many."""

from torch import Tensor

from eclose.ops.xd.algebra.pairs_first import analysis, but_last, derivatives, returned
from eclose.ops.xd.evaluation.autograd import Kept
from eclose.ops.xd.evaluation.blocks import blocks, restricted
from eclose.ops.xd.evaluation.filtered import Wanted, filtered_gradients, from_spectrum
from eclose.ops.xd.evaluation.gradients import Gradients
from eclose.ops.xd.evaluation.inputs import Terms, grouped, joined
from eclose.ops.xd.gates import with_bias

KEPT = 2**21
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
        small = not others and len(terms.inner) == 1 and spectrum.numel() <= KEPT
        return y, (spectrum,) if small else ()

    def gradients(self, terms: Terms, kept: Kept, cotangent: Tensor, needed: list[bool]) -> list[Tensor | None]:
        """Derivatives by :meth:`Terms.tensors`, where ``needed``, in blocks of frequencies."""
        terms = terms.rounded()
        found = Gradients(terms, needed)
        x, cotangent = grouped(terms.x, terms.groups), grouped(cotangent, terms.groups)
        for block in blocks(terms):
            _add_block(found, block, restricted(terms, block), x, cotangent, *kept)
        return found.tensors()


def _whole(terms: Terms) -> tuple[Tensor, Tensor]:
    """The output, and the spectrum of x."""
    response = _biased(_responses(terms)[-1], terms)
    spectrum = analysis(grouped(terms.x, terms.groups), terms.inner)[-1]
    return joined(from_spectrum(spectrum, response, terms.outer)), spectrum


def _add_block(
    found: Gradients, block: slice, terms: Terms, x: Tensor, cotangent: Tensor, spectrum: Tensor | None = None
) -> None:
    responses = _responses(terms)
    by_response = found.weight or found.bias or found.gates or found.filters
    wanted = Wanted(found.x, by_response, found.outer, found.inner)
    response = _biased(responses[-1], terms)
    parts = filtered_gradients(x, response, terms.outer, terms.inner, cotangent, wanted, spectrum)
    if parts.x is not None:
        found.add("x", joined(parts.x))
    found.add_matrices("outer", parts.outer, block)
    found.add_matrices("inner", parts.inner, block)
    if parts.response is None:
        return
    flat = parts.response.flatten(0, -4).flatten(1)  # (2 * frequencies, c_out * c_in / groups)
    if found.bias:
        by_bias = flat.sum(1) if terms.gates is None else terms.gates.flatten(-2) @ flat.mT
        found.add("bias", by_bias.view(*by_bias.shape[:-1], *parts.response.shape[:-3]), block)
    if found.gates and terms.bias is not None and terms.gates is not None:
        by_gates = terms.bias.flatten(3 - parts.response.dim()) @ flat
        found.add("gates", by_gates.view_as(terms.gates))
    if found.weight or found.filters:
        taps = (returned if found.weight else but_last)(parts.response, terms.filters)
        if found.weight:
            found.add("weight", taps.pop().reshape(terms.weight.shape))
        if found.filters:
            found.add_matrices("filters", derivatives(responses[:-1], taps), block)


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
    return with_bias(flat, bias, terms.gates.flatten(-2)).view_as(response)
