"""The bias of an XD-operation as a term of its own, ``Real(K diag(b) M (C x))``, on two or three axes.

Where all gates are one, the channels of a group are summed up first: one channel goes through the transforms. Both
parts of complex gates make signals of their own, c x and d x, which meet b and i b.
"""

from torch import Tensor

from eclose.ops.xd.algebra.pairs_first import adjoint, analysis, complex_matmul, returned, times
from eclose.ops.xd.evaluation.autograd import Gradients, differentiated
from eclose.ops.xd.evaluation.frequency import WHOLE, FilterNeeds, blocks, filtered, filtered_gradients, restricted
from eclose.ops.xd.evaluation.inputs import Terms
from eclose.ops.xd.gates import are_complex


def spectral_bias(terms: Terms) -> Tensor:
    """``(batch, c_out, *outs)``, by operations that torch differentiates."""
    terms = terms.rounded()
    rows = _rows(_gated(terms), terms)
    return _spread_out(_filtered(rows, terms), terms)


def spectral_bias_forward(terms: Terms) -> Tensor:
    """The same without derivatives, in blocks of frequencies."""
    terms = terms.rounded()
    rows, y = _rows(_gated(terms), terms), None
    for block in _blocks(terms):
        part = _filtered(rows, restricted(terms, block))
        y = part if y is None else y.add_(part)
    assert y is not None
    return _spread_out(y, terms)


def spectral_bias_gradients(terms: Terms, cotangent: Tensor, gradients: Gradients) -> None:
    """Adds its derivatives to the gradients."""
    if terms.mask is not None:
        gradients.add_all(differentiated(spectral_bias, terms, cotangent, gradients.needed))
        return
    terms = terms.rounded()
    x, y = _gated(terms), cotangent.unflatten(1, (terms.groups, -1))
    y = (y.sum(2, keepdim=True) if terms.gates is None else y).flatten(0, 2)[None, :, None]
    rows = _rows(x, terms)
    needs = FilterNeeds(gradients.x or gradients.gates, gradients.bias, gradients.outer, gradients.inner)
    by_rows = None
    for block in _blocks(terms):
        some = restricted(terms, block)
        parts = filtered_gradients(rows, _response(some), some.outer, some.inner, y, needs)
        gradients.add_matrices("outer", parts.outer, block)
        gradients.add_matrices("inner", parts.inner, block)
        if parts.response is not None:
            by_bias = parts.response[..., 0, 0, :].movedim(-1, 0)
            gradients.add("bias", by_bias if are_complex(terms.gates) else by_bias[0], block)
        if parts.x is not None:
            by_rows = parts.x if by_rows is None else by_rows.add_(parts.x)
    if by_rows is not None:
        _add_gated(terms, by_rows.view_as(x), gradients)


def _add_gated(terms: Terms, cotangent: Tensor, gradients: Gradients) -> None:  # as what _gated makes
    """The derivatives by x and C, given the one by C x."""
    if terms.gates is None:
        gradients.add("x", cotangent.expand(-1, -1, terms.x.shape[1] // terms.groups, *terms.x.shape[2:]).flatten(1, 2))
        return
    flat = cotangent.flatten(3)
    if gradients.x:
        gradients.add("x", (_by_group(terms.gates, terms.groups).mT @ flat).view_as(terms.x))
    if gradients.gates:
        x = terms.x.unflatten(1, (terms.groups, -1)).flatten(3)
        by_parts = (flat @ x.mT).sum(0).view(len(terms.weight), -1, x.shape[2])  # (c_out, parts, c_in)
        gradients.add("gates", by_parts.transpose(0, 1).reshape(terms.gates.shape))


def _filtered(rows: Tensor, terms: Terms) -> Tensor:  # (1, rows, parts, *sizes)
    """``(1, rows, 1, *outs)``."""
    if terms.mask is None:
        return filtered(rows, _response(terms), terms.outer, terms.inner)
    return _masked(rows, terms, terms.mask)


def _masked(rows: Tensor, terms: Terms, mask: Tensor) -> Tensor:
    """The same with the last axis as a masked matrix for every frequency of the others."""
    outer, bias = adjoint(terms.outer[-1]), _parts(terms).movedim(0, -2).unsqueeze(-2)
    rates = times(bias, outer.view(2, *[1] * (bias.dim() - 3), *outer.shape[1:]))
    matrix = complex_matmul(rates, terms.inner[-1]) * mask  # (2, *other transforms, parts, out, size)
    spectrum = analysis(rows.movedim(-1, 3), terms.inner[:-1])[-1]  # (2, *other transforms, 1, rows, parts, size)
    seen = matrix.transpose(-3, -2).flatten(-2).mT  # (2, *other transforms, parts * size, out)
    output = complex_matmul(spectrum.flatten(-4, -3).flatten(-2), seen).unflatten(-2, (*spectrum.shape[-4:-2], 1))
    return returned(output, terms.outer[:-1])[-1].movedim(3, -1)


def _blocks(terms: Terms) -> list[slice]:
    """A masked matrix is a product with all frequencies of the last axis."""
    return blocks(terms, filters=False) if terms.mask is None else [WHOLE]


def _response(terms: Terms) -> Tensor:
    """``(2, *transforms, 1, 1, parts)``."""
    return _parts(terms).movedim(0, -1)[..., None, None, :]


def _parts(terms: Terms) -> Tensor:
    """b, or b and i b: ``(parts, 2, *transforms)``."""
    assert terms.bias is not None
    return terms.bias if are_complex(terms.gates) else terms.bias.unsqueeze(0)


def _gated(terms: Terms) -> Tensor:
    """``C x``: ``(batch, groups, c_out * parts, *sizes)``; one channel a group where all gates are one."""
    x = terms.x.unflatten(1, (terms.groups, -1))
    if terms.gates is None:
        return x.sum(2, keepdim=True)
    return (_by_group(terms.gates, terms.groups) @ x.flatten(3)).unflatten(3, x.shape[3:])


def _by_group(gates: Tensor, groups: int) -> Tensor:  # (c_out, c_in), or of complex gates (2, c_out, c_in)
    """``(groups, c_out * parts, c_in)``."""
    rows = gates.transpose(0, 1).flatten(0, 1) if are_complex(gates) else gates
    return rows.unflatten(0, (groups, -1))


def _rows(x: Tensor, terms: Terms) -> Tensor:  # (batch, groups, channels * parts, *sizes)
    """Every channel as a sample of its own: ``(1, rows, parts, *sizes)``."""
    return x.unflatten(2, (-1, len(_parts(terms)))).flatten(0, 2).unsqueeze(0)


def _spread_out(y: Tensor, terms: Terms) -> Tensor:  # (1, rows, 1, *outs)
    """``(batch, c_out, *outs)``."""
    channels = len(terms.weight) // terms.groups
    y = y.view(terms.x.shape[0], terms.groups, 1 if terms.gates is None else channels, *y.shape[3:])
    return y.expand(-1, -1, channels, *y.shape[3:]).flatten(1, 2)
