"""Channels mixed at every frequency, some frequencies at a time: never are the spectra of all filters there at once.

``z_i = sum_j (L w_ij + C_ij b) s_j`` at every frequency of one axis: spectra ``(2, n, groups, batch, channels)``,
filters ``(2, n, kernel)``, which are the columns of L.
"""

import torch
from torch import Tensor

from eclose.ops.xd.gates import with_bias
from eclose.ops.xd.terms import Terms
from eclose.ops.xd.transforms import product

AT_ONCE = {"cpu": 2**20, "cuda": 2**25}
"""How many numbers the spectra of filters may have at once: what a cache holds, and what a GPU is busy with."""


def mixed(terms: Terms, filters: Tensor, spectrum: Tensor) -> Tensor:
    """``(2, n, groups, batch, c_out)``."""
    found = [product(spectrum[:, part], _response(terms, filters, part).mT) for part in _parts(terms, filters)]
    return _whole(found)


def mixing_gradients(
    terms: Terms, filters: Tensor, spectrum: Tensor, cotangent: Tensor, needed: tuple[bool, bool, bool]
) -> tuple[Tensor | None, Tensor | None, list[Tensor | None]]:
    """What came out, the derivative by the spectrum, and those by weight, b, C and filters, as ``needed``."""
    outputs, inputs, slopes = [], [], []
    for part in _parts(terms, filters):
        response = _response(terms, filters, part)
        if needed[0]:
            outputs.append(product(spectrum[:, part], response.mT))
        if needed[1]:
            inputs.append(product(cotangent[:, part], response, conjugate=True))
        del response
        if needed[2]:
            by_response = product(cotangent[:, part].mT, spectrum[:, part], conjugate=True)
            slopes.append(_by_filters(terms, filters, by_response, part))
    return (
        _whole(outputs) if outputs else None,
        _whole(inputs) if inputs else None,
        _summed(terms, slopes) if slopes else [None] * 4,
    )


def _response(terms: Terms, filters: Tensor, part: slice) -> Tensor:
    """``L w_ij + C_ij b`` at some frequencies, ``(2, part, groups, c_out, c_in)``."""
    found = filters[:, part].flatten(0, 1) @ terms.weight.flatten(0, 1).mT  # (2 * part, c_out * c_in)
    if terms.bias is not None:
        bias = terms.bias[..., part].flatten(-2).to(found.dtype)
        found = found + bias.unsqueeze(1) if terms.gates is None else with_bias(found, bias, terms.gates.flatten(-2))
    c_out, c_in = terms.weight.shape[:2]
    return found.view(2, -1, terms.groups, c_out // terms.groups, c_in)


def _by_filters(terms: Terms, filters: Tensor, by_response: Tensor, part: slice) -> list[Tensor | None]:
    """Derivatives by weight and C, of which the parts are summed, and by b and filters, which are theirs alone."""
    flat = by_response.flatten(0, 1).flatten(1)  # (2 * part, c_out * c_in)
    by_weight = (flat.mT @ filters[:, part].flatten(0, 1)).view_as(terms.weight)
    by_columns = (flat @ terms.weight.flatten(0, 1)).unflatten(0, (2, -1))
    if terms.bias is None:
        return [by_weight, None, None, by_columns]
    if terms.gates is None:
        return [by_weight, flat.sum(1).unflatten(0, (2, -1)), None, by_columns]
    by_gates = (terms.bias[..., part].flatten(-2).to(flat.dtype) @ flat).view_as(terms.gates)
    return [by_weight, (terms.gates.flatten(-2) @ flat.mT).unflatten(-1, (2, -1)), by_gates, by_columns]


def _summed(terms: Terms, slopes: list[list[Tensor | None]]) -> list[Tensor | None]:
    by_weight, by_bias, by_gates, by_columns = (
        [slope for slope in column if slope is not None] for column in zip(*slopes, strict=True)
    )
    return [
        torch.stack(by_weight).sum(0),
        torch.cat(by_bias, dim=-1) if by_bias else None,
        torch.stack(by_gates).sum(0) if by_gates else None,
        _whole(by_columns),
    ]


def _parts(terms: Terms, filters: Tensor) -> list[slice]:
    """Frequencies in parts."""
    numbers = AT_ONCE.get(filters.device.type, AT_ONCE["cuda"])
    step = max(1, numbers // (2 * terms.weight.shape[:2].numel()))
    return [slice(start, start + step) for start in range(0, filters.shape[1], step)]


def _whole(parts: list[Tensor]) -> Tensor:  # each (2, part, ...)
    return torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
