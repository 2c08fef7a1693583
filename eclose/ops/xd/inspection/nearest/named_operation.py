"""A named operation, and how well it describes another one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Named:
    """A known operation. The residual is 0 for an operation that is exactly this one, 1 if it has nothing of it.

    ``details`` are words; ``parameters`` are numbers, and tuples with one value for every axis.
    """

    name: str
    details: str
    parameters: dict[str, Any]
    residual: float

    def __str__(self) -> str:
        """In words: ``convolution with dilation 2, residual 3.1 %``."""
        named = f"{self.name} {self.details}" if self.details else self.name
        return f"{named}, residual {per_cent(self.residual)}"


def spoken(values: Sequence[float]) -> str:
    """One number for every axis; a single one where they agree."""
    told = [f"{value:g}" for value in values]
    return told[0] if len(set(told)) == 1 else f"({', '.join(told)})"


def per_cent(share: float) -> str:
    """``below 0.1 %``, ``3.1 %``, ``24 %``."""
    if share < 0.001:
        return "below 0.1 %"
    return f"{100 * share:.1f} %" if share < 0.1 else f"{100 * share:,.0f} %"
