"""Channels mixed at every frequency, some frequencies at a time: never are the spectra of all filters there at once.

``z_i = sum_j (L w_ij) s_j`` at every frequency of one axis: spectra ``(n, 2, groups, batch, channels)``, filters
``(2, n, kernel)``, which are the columns of L. A frequency has both parts of all samples, or of all filters of a group,
as the rows of one matrix, so that complex products are single real ones. Channels that are mixed with no other one
(depthwise) are multiplied entry by entry.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from eclose.ops.xd.algebra.pairs_first import complex_product
from eclose.ops.xd.evaluation.inputs import Terms

AT_ONCE = {"cpu": 2**19, "cuda": 2**25}
"""How many numbers the spectra of filters may have at once: what a cache holds, and what a GPU is busy with."""

PRODUCT_BLOCKS = 8
"""Products with the few taps of a kernel are made in so many blocks: threads share these better than one matrix."""


def mix_at_once(terms: Terms, spectrum: Tensor) -> Tensor:
    """``(n, 2, groups, batch, c_out)``, by operations that torch differentiates; all filters at once."""
    response = _response(terms, _columns(terms))
    if _alone(spectrum):
        return complex_product(spectrum.transpose(0, 1), response.transpose(0, 1).mT).transpose(0, 1)
    (a, b), (c, d) = _products(spectrum, response)
    return torch.stack([a - d, b + c], dim=1)


def mix_in_parts(terms: Terms, spectrum: Tensor) -> Tensor:
    """The same without derivatives."""
    output = spectrum.new_empty(*spectrum.shape[:4], len(terms.weight) // terms.groups)
    for part, columns in _parts(terms):
        _mix(spectrum[part], _response(terms, columns), output[part])
    return output


def mix_gradients(
    terms: Terms, spectrum: Tensor, cotangent: Tensor, needed: tuple[bool, bool, bool]
) -> tuple[Tensor | None, Tensor | None, tuple[Tensor, Tensor] | None]:
    """What came out, the derivative by the spectrum, and those by weight and filters, as ``needed``."""
    outputs = torch.empty_like(cotangent) if needed[0] else None
    inputs = torch.empty_like(spectrum) if needed[1] else None
    gradients = _Gradients(terms) if needed[2] else None
    for part, columns in _parts(terms):
        some, back = spectrum[part], _Back(cotangent[part], _alone(spectrum))
        response = _response(terms, columns) if needed[0] or needed[1] else None
        if outputs is not None and response is not None:
            _mix(some, response, outputs[part])
        if inputs is not None and response is not None:
            inputs[part] = back.by_spectrum(response)
        del response
        if gradients is not None:
            gradients.add(part, columns, back.by_response(some).flatten(0, 1).flatten(1))
    return outputs, inputs, None if gradients is None else gradients.gradients()


class _Back:
    """The way back from the derivative by what came out."""

    def __init__(self, cotangent: Tensor, alone: bool) -> None:  # (n, 2, groups, batch, c_out)
        self._alone, self._groups = alone, cotangent.shape[2]
        self._cotangent = cotangent.transpose(0, 1) if alone else _both_ways(cotangent)

    def by_spectrum(self, response: Tensor) -> Tensor:  # (n, 2, groups, c_out, c_in)
        """``(n, 2, groups, batch, c_in)``."""
        if self._alone:
            return complex_product(self._cotangent, response.transpose(0, 1), conjugate=True).transpose(0, 1)
        return _spectrum(torch.bmm(self._cotangent, _rows(response)), self._groups)

    def by_response(self, spectrum: Tensor) -> Tensor:  # (n, 2, groups, batch, c_in)
        """``(n, 2, groups, c_out, c_in)``."""
        if self._alone:
            return complex_product(self._cotangent.mT, spectrum.transpose(0, 1), conjugate=True).transpose(0, 1)
        return _spectrum(torch.bmm(self._cotangent.mT, _rows(spectrum)), self._groups)


class _Gradients:
    """Derivatives by the weight and by the filters, from those by the filters' spectra."""

    def __init__(self, terms: Terms) -> None:
        self._shape = terms.weight.shape
        pairs, kernel = self._shape[:2].numel(), self._shape[2]
        blocks = math.gcd(pairs, PRODUCT_BLOCKS)
        self._taps = terms.weight.flatten(0, 1).mT  # (kernel, pairs)
        # Under autocast the sum over all frequencies is more precise than what is summed.
        precise = torch.promote_types(terms.x.dtype, torch.float32)
        self._by_weight = terms.x.new_zeros(blocks, kernel, pairs // blocks, dtype=precise)
        self._by_filters = terms.x.new_empty(terms.filters[0].shape[1], 2, kernel)

    def add(self, part: slice, columns: Tensor, by_response: Tensor) -> None:  # (part * 2, kernel or pairs)
        """Some frequencies."""
        blocks = len(self._by_weight)
        sides = by_response.unflatten(1, (blocks, -1)).transpose(0, 1)
        self._by_weight += torch.bmm(columns.mT.expand(blocks, -1, -1), sides)
        rows = _blocks(by_response)
        by_filters = torch.bmm(self._taps.expand(len(rows), -1, -1), rows.mT)  # (blocks, kernel, part * 2 / blocks)
        self._by_filters[part] = by_filters.mT.reshape(-1, 2, len(self._taps))

    def gradients(self) -> tuple[Tensor, Tensor]:
        """As the weight and the filters are."""
        by_weight = self._by_weight.to(self._by_filters.dtype).mT.flatten(0, 1)
        return by_weight.view(self._shape), self._by_filters.transpose(0, 1)


def _alone(z: Tensor) -> bool:
    """Whether every group has one channel only."""
    return z.shape[-1] == 1


def _products(spectrum: Tensor, response: Tensor) -> Tensor:
    """``(2, 2, n, groups, batch, c_out)``: of both parts of the spectrum with both parts of the filters."""
    products = torch.bmm(_rows(spectrum), _rows(response).mT).unflatten(2, (2, -1)).unflatten(1, (2, -1))
    return products.unflatten(0, (-1, spectrum.shape[2])).permute(2, 4, 0, 1, 3, 5)


def _mix(spectrum: Tensor, response: Tensor, output: Tensor) -> None:
    if _alone(spectrum):
        output.copy_(complex_product(spectrum.transpose(0, 1), response.transpose(0, 1).mT).transpose(0, 1))
        return
    (a, b), (c, d) = _products(spectrum, response)
    torch.sub(a, d, out=output[:, 0])
    torch.add(b, c, out=output[:, 1])


def _both_ways(z: Tensor) -> Tensor:  # (n, 2, groups, rows, channels)
    """``(n * groups, 2 * rows, 2 * channels)``: z, and ``-i z`` beside it."""
    count, _, groups, rows, channels = z.shape
    both = z.new_empty(count, groups, 2, rows, 2, channels)
    both[..., 0, :] = z.transpose(1, 2)
    both[:, :, 0, :, 1] = z[:, 1]
    torch.neg(z[:, 0], out=both[:, :, 1, :, 1])
    return both.view(count * groups, 2 * rows, 2 * channels)


def _rows(z: Tensor) -> Tensor:  # (n, 2, groups, rows, channels)
    """``(n * groups, 2 * rows, channels)``."""
    return z.transpose(1, 2).flatten(0, 1).flatten(1, 2)


def _spectrum(rows: Tensor, groups: int) -> Tensor:  # (n * groups, 2 * rows, channels)
    """``(n, 2, groups, rows, channels)``."""
    return rows.unflatten(1, (2, -1)).unflatten(0, (-1, groups)).transpose(1, 2)


def _response(terms: Terms, columns: Tensor) -> Tensor:  # (part * 2, kernel)
    """``L w_ij`` at some frequencies, ``(part, 2, groups, c_out, c_in)``."""
    weight, blocks = terms.weight.unflatten(0, (terms.groups, -1)), _blocks(columns)
    response = torch.bmm(blocks, weight.flatten(0, 2).mT.expand(len(blocks), -1, -1))
    return response.view(-1, 2, *weight.shape[:3])


def _blocks(rows: Tensor) -> Tensor:  # (rows, ...)
    """``(blocks, rows / blocks, ...)``."""
    return rows.unflatten(0, (math.gcd(len(rows), PRODUCT_BLOCKS), -1))


def _columns(terms: Terms) -> Tensor:
    """``(n * 2, kernel)``."""
    return terms.filters[0].transpose(0, 1).flatten(0, 1)


def _parts(terms: Terms) -> Iterator[tuple[slice, Tensor]]:
    """Some frequencies at a time, with their columns."""
    columns, step = _columns(terms), AT_ONCE.get(terms.x.device.type, AT_ONCE["cuda"])
    step = max(1, step // (2 * terms.weight.shape[:2].numel()))
    for start in range(0, len(columns) // 2, step):
        yield slice(start, start + step), columns[2 * start : 2 * (start + step)]
