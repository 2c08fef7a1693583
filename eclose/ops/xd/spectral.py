"""The bias of an XD-operation as a term of its own: ``Real(K diag(b) M (C x))``."""

from torch import Tensor

from eclose.ops.xd.frequency import grouped, joined
from eclose.ops.xd.terms import Terms
from eclose.ops.xd.transforms import analysis, synthesis, times


def spectral_bias(terms: Terms) -> Tensor:
    """``(batch, c_out, *outs)``, or ``(batch, groups, *outs)`` repeated where all gates are one."""
    assert terms.bias is not None
    spectrum = analysis(_gated(terms), terms.inner)[-1]
    y = synthesis(times(spectrum, terms.bias[(...,) + (None,) * 3]), terms.outer)[-1]
    channels = len(terms.weight) // terms.groups
    return joined(y.expand(-1, -1, channels, *[-1] * len(terms.outer)))


def _gated(terms: Terms) -> Tensor:
    """``C x``: ``(groups, batch, c_out, *sizes)``; one channel a group where all gates are one."""
    x = grouped(terms.x, terms.groups)
    if terms.gates is None:
        return x.sum(2, keepdim=True)
    gates = terms.gates.unflatten(0, (terms.groups, -1)).unsqueeze(1)
    return (gates @ x.flatten(3)).unflatten(3, x.shape[3:])
