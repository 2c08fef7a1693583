"""Frequencies in blocks: an XD-operation is a sum over those of the last axis, so no spectrum need be whole.

A block goes through all steps while it lies in the caches, and filters of all frequencies never exist at once.
"""

import math
from dataclasses import replace

from eclose.ops.xd.evaluation.inputs import Terms

NUMBERS = {"cpu": 6e6, "cuda": 2e8}
"""How many numbers the spectra of a block may have, by kind of device."""

WHOLE = slice(None)
"""All frequencies."""


def blocks(terms: Terms, filters: bool = True) -> list[slice]:
    """Slices of the frequencies of the last axis; ``filters``: every frequency has filters for pairs of channels."""
    *others, last = [matrix.shape[1] for matrix in terms.inner]
    (batch, inputs), (outputs, each) = terms.x.shape[:2], terms.weight.shape[:2]
    signals = batch * (inputs + outputs)
    pairs = 2 * outputs * each if filters else 0  # and as many derivatives
    numbers = 2.0 * math.prod(others) * last * (signals + pairs)
    count = min(last, math.ceil(numbers / NUMBERS.get(terms.x.device.type, NUMBERS["cuda"])))
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
