"""The bias of an XD-operation as a term of its own, ``Real(K diag(b) M (C x))``, on two or three axes.

Where all gates are one, the channels of a group are summed up first: one channel goes through the transforms.
"""

from torch import Tensor

from eclose.ops.xd.blocks import blocks, restricted
from eclose.ops.xd.filtered import Wanted, filtered, filtered_gradients
from eclose.ops.xd.gradients import Gradients
from eclose.ops.xd.recompute import differentiated
from eclose.ops.xd.terms import Terms
from eclose.ops.xd.transforms import adjoint, analysis, complex_matmul, returned, times


def spectral_bias(terms: Terms) -> Tensor:
    """``(batch, c_out, *outs)``, by operations that torch differentiates."""
    terms = terms.rounded()
    x = _gated(terms)
    return _spread_out(_filtered(_rows(x), terms).view(*x.shape[:3], *_outs(terms)), terms)


def spectral_bias_forward(terms: Terms) -> Tensor:
    """The same without derivatives, in blocks of frequencies."""
    terms = terms.rounded()
    x = _gated(terms)
    rows, y = _rows(x), None
    for block in _blocks(terms):
        part = _filtered(rows, restricted(terms, block))
        y = part if y is None else y.add_(part)
    assert y is not None
    return _spread_out(y.view(*x.shape[:3], *_outs(terms)), terms)


def spectral_bias_gradients(terms: Terms, cotangent: Tensor, found: Gradients) -> None:
    """Adds the derivatives to those found."""
    if terms.mask is not None:
        found.add_all(differentiated(spectral_bias, terms, cotangent, found.needed))
        return
    terms = terms.rounded()
    x, y = _gated(terms), cotangent.unflatten(1, (terms.groups, -1))
    y = y.sum(2, keepdim=True) if terms.gates is None else y
    wanted = Wanted(found.x or found.gates, found.bias, found.outer, found.inner)
    by_rows = None
    for block in _blocks(terms):
        some = restricted(terms, block)
        parts = filtered_gradients(_rows(x), _response(some), some.outer, some.inner, _rows(y), wanted)
        found.add_matrices("outer", parts.outer, block)
        found.add_matrices("inner", parts.inner, block)
        if parts.response is not None:
            found.add("bias", parts.response[..., 0, 0, 0], block)
        if parts.x is not None:
            by_rows = parts.x if by_rows is None else by_rows.add_(parts.x)
    if by_rows is not None:
        _add_gated(terms, by_rows.view_as(x), found)


def _add_gated(terms: Terms, cotangent: Tensor, found: Gradients) -> None:  # (batch, groups, c_out or 1, *sizes)
    """The derivatives by x and C, given the one by C x."""
    if terms.gates is None:
        found.add("x", cotangent.expand(-1, -1, terms.x.shape[1] // terms.groups, *terms.x.shape[2:]).flatten(1, 2))
        return
    gates, flat = terms.gates.unflatten(0, (terms.groups, -1)), cotangent.flatten(3)
    if found.x:
        found.add("x", (gates.mT @ flat).view_as(terms.x))
    if found.gates:
        x = terms.x.unflatten(1, (terms.groups, -1)).flatten(3)
        found.add("gates", (flat @ x.mT).sum(0).view_as(terms.gates))


def _filtered(rows: Tensor, terms: Terms) -> Tensor:  # (1, rows, 1, *sizes)
    if terms.mask is None:
        return filtered(rows, _response(terms), terms.outer, terms.inner)
    return _masked(rows, terms, terms.mask)


def _masked(rows: Tensor, terms: Terms, mask: Tensor) -> Tensor:
    """The same with the last axis as a masked matrix for every frequency of the others."""
    assert terms.bias is not None
    outer, bias = adjoint(terms.outer[-1]), terms.bias.unsqueeze(-2)
    rates = times(bias, outer.view(2, *[1] * (bias.dim() - 3), *outer.shape[1:]))
    matrix = complex_matmul(rates, terms.inner[-1]) * mask  # (2, *other transforms, out, size)
    spectrum = analysis(rows.movedim(-1, 3), terms.inner[:-1])[-1]  # (2, *other transforms, 1, rows, 1, size)
    found = complex_matmul(spectrum.flatten(-4, -2), matrix.mT).unflatten(-2, spectrum.shape[-4:-1])
    return returned(found, terms.outer[:-1])[-1].movedim(3, -1)


def _blocks(terms: Terms) -> list[slice]:
    """A masked matrix is a product with all frequencies of the last axis."""
    return blocks(terms, filters=False) if terms.mask is None else [slice(None)]


def _response(terms: Terms) -> Tensor:
    assert terms.bias is not None
    return terms.bias[(...,) + (None,) * 3]


def _gated(terms: Terms) -> Tensor:
    """``C x``: ``(batch, groups, c_out, *sizes)``; one channel a group where all gates are one."""
    x = terms.x.unflatten(1, (terms.groups, -1))
    if terms.gates is None:
        return x.sum(2, keepdim=True)
    gates = terms.gates.unflatten(0, (terms.groups, -1))
    return (gates @ x.flatten(3)).unflatten(3, x.shape[3:])


def _rows(x: Tensor) -> Tensor:  # (batch, groups, channels, *sizes)
    """Every channel as a sample of its own: ``(1, rows, 1, *sizes)``."""
    return x.flatten(0, 2)[None, :, None]


def _spread_out(y: Tensor, terms: Terms) -> Tensor:  # (batch, groups, c_out or 1, *outs)
    """``(batch, c_out, *outs)``."""
    return y.expand(-1, -1, len(terms.weight) // terms.groups, *y.shape[3:]).flatten(1, 2)


def _outs(terms: Terms) -> list[int]:
    return [matrix.shape[2] for matrix in terms.outer]
