"""On one axis ``L w_ij + C_ij b`` is one product: b is one more column of L, and C one more tap.

Of complex gates b and i b are two more columns, the parts of C two more taps.
"""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from eclose.ops.xd.gates import are_complex
from eclose.ops.xd.gradients import PLACES
from eclose.ops.xd.terms import Terms

ALIGNED = {"cpu": 1, "cuda": 4}
"""Taps come in multiples of this, the last ones zero: products of other sizes miss the matrix units of a GPU."""

WEIGHT, BIAS, GATES, FILTERS = (PLACES[name] for name in ("weight", "bias", "gates", "filters"))
"""Places among :meth:`Terms.tensors` of one axis."""


def weight_and_gates(terms: Terms) -> Tensor:
    """``(c_out, c_in / groups, kernel + 1)``, of complex gates ``kernel + 2``; ones where there are no gates."""
    weight = terms.weight
    gates = weight.new_ones(weight.shape[:2]) if terms.gates is None else terms.gates
    return torch.cat([weight, _columns(gates)], dim=-1)


def with_bias_as_tap(terms: Terms) -> Terms:
    """The same operation without a bias; operations on several axes stay as they are."""
    if len(terms.outer) > 1:
        return terms
    weight, filters = terms.weight, terms.filters[0]
    if terms.bias is not None:
        weight = weight_and_gates(terms)
        filters = torch.cat([filters, _columns(terms.bias)], dim=-1)
    missing = -weight.shape[-1] % ALIGNED.get(weight.device.type, 4)
    if missing:
        weight, filters = F.pad(weight, (0, missing)), F.pad(filters, (0, missing))
    return replace(terms, weight=weight, filters=[filters], bias=None, gates=None)


def needed_with_tap(needed: list[bool]) -> list[bool]:
    """Which derivatives of the operation without a bias are needed."""
    found = list(needed)
    found[WEIGHT], found[FILTERS] = needed[WEIGHT] or needed[GATES], needed[FILTERS] or needed[BIAS]
    found[BIAS] = found[GATES] = False
    return found


def without_tap(slopes: list[Tensor | None], terms: Terms, needed: list[bool]) -> list[Tensor | None]:
    """The derivatives by the tensors of ``terms``, from those of the operation without a bias."""
    found, taps = list(slopes), terms.weight.shape[-1]
    for place, extra in ((WEIGHT, GATES), (FILTERS, BIAS)):
        slope = slopes[place]
        found[place] = slope[..., :taps] if slope is not None and needed[place] else None
        found[extra] = _column(slope, taps, terms) if slope is not None and needed[extra] else None
    return found


def _columns(bias_or_gates: Tensor) -> Tensor:  # (n, m), or of complex gates (2, n, m)
    """``(n, m, 1 or 2)``."""
    return bias_or_gates.unsqueeze(-1) if bias_or_gates.dim() == 2 else bias_or_gates.movedim(0, -1)


def _column(slope: Tensor, place: int, terms: Terms) -> Tensor:
    """The way back, from the columns that begin at a place."""
    return slope[..., place : place + 2].movedim(-1, 0) if are_complex(terms.gates) else slope[..., place]
