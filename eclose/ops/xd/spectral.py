"""The bias of an XD-operation as a term of its own: ``Real(K diag(b) M (C x))``."""

from torch import Tensor

from eclose.ops.xd.frequency import grouped, joined
from eclose.ops.xd.terms import Terms
from eclose.ops.xd.transforms import analysis, complex_matmul, synthesis, times


def spectral_bias(terms: Terms) -> Tensor:
    """``(batch, c_out, *outs)``."""
    assert terms.bias is not None
    if terms.mask is None:
        spectrum = analysis(_gated(terms), terms.inner)[-1]
        y = synthesis(times(spectrum, terms.bias[(...,) + (None,) * 3]), terms.outer)[-1]
    else:
        y = _masked(terms, terms.bias, terms.mask)
    channels = len(terms.weight) // terms.groups
    return joined(y.expand(-1, -1, channels, *[-1] * len(terms.outer)))


def _masked(terms: Terms, bias: Tensor, mask: Tensor) -> Tensor:
    """The same with the last axis as a masked matrix for every frequency of the others."""
    x = _gated(terms)  # (groups, batch, channels, *sizes)
    rates = times(bias.unsqueeze(-2), terms.outer[-1].view(2, *[1] * (bias.dim() - 2), *terms.outer[-1].shape[1:]))
    matrix = complex_matmul(rates, terms.inner[-1]) * mask  # (2, *other transforms, out, size)
    if len(terms.outer) == 1:
        return x @ matrix[0].mT
    spectrum = analysis(x.movedim(-1, 3), terms.inner[:-1])[-1]  # (2, *other transforms, groups, batch, channels, size)
    rows = complex_matmul(spectrum.flatten(-4, -2), matrix.mT).unflatten(-2, spectrum.shape[-4:-1])
    return synthesis(rows, terms.outer[:-1])[-1].movedim(3, -1)


def _gated(terms: Terms) -> Tensor:
    """``C x``: ``(groups, batch, c_out, *sizes)``; one channel a group where all gates are one."""
    x = grouped(terms.x, terms.groups)
    if terms.gates is None:
        return x.sum(2, keepdim=True)
    gates = terms.gates.unflatten(0, (terms.groups, -1)).unsqueeze(1)
    return (gates @ x.flatten(3)).unflatten(3, x.shape[3:])
