"""Derivatives of an XD-operation by its terms, summed up over the parts in which it is evaluated."""

from collections.abc import Sequence

import torch
from torch import Tensor

from eclose.ops.xd.evaluation.inputs import Terms

PLACES = {"x": 0, "weight": 1, "bias": 2, "gates": 3, "outer": 4, "filters": 5, "inner": 6, "shifts": 7}


class Gradients:
    """``needed`` says for each of :meth:`Terms.tensors` whether it gets a derivative; the flags sum that up."""

    def __init__(self, terms: Terms, needed: list[bool]) -> None:
        self.needed, self._terms, self._axes = needed, terms.tensors(), len(terms.outer)
        self._found: list[Tensor | None] = [None] * len(needed)
        self.x, self.weight, self.bias, self.gates = needed[:4]
        self.outer, self.filters, self.inner, self.shifts = (
            any(needed[4 + part * self._axes :][: self._axes]) for part in range(4)
        )

    def add(self, name: str, value: Tensor, block: slice | None = None) -> None:
        """To the derivative by x, weight, bias or gates; ``block``: of some frequencies of the last axis only."""
        self._add(PLACES[name], value, (..., block) if name == "bias" and block is not None else None)

    def add_matrices(self, name: str, values: list[Tensor], block: slice | None = None) -> None:
        """To those by the outer, filters or inner matrices, or the shifts, of all axes."""
        for axis, value in enumerate(values):
            place = 4 + (PLACES[name] - 4) * self._axes + axis
            if block is None or axis < self._axes - 1:
                self._add(place, value, None)
            else:
                self._add(place, value, (slice(None), block))

    def add_all(self, values: Sequence[Tensor | None]) -> None:
        """To all of them, in the order of :meth:`Terms.tensors`."""
        for place, value in enumerate(values):
            if value is not None:
                self._add(place, value, None)

    def tensors(self) -> list[Tensor | None]:
        """In the order of :meth:`Terms.tensors`."""
        return self._found

    def _add(self, place: int, value: Tensor, window: tuple[object, ...] | None) -> None:
        if not self.needed[place]:
            return
        found, like = self._found[place], self._terms[place]
        assert like is not None
        if found is None and (window is None or value.shape == like.shape):
            self._found[place] = value
            return
        if found is None:
            found = self._found[place] = torch.zeros_like(like)
        target = found if window is None else found[window]  # type: ignore[index]
        target += value
