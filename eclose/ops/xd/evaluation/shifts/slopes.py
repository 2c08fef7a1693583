"""Which derivatives of the orders that use shift tensors are asked for, and how they are returned."""

from dataclasses import dataclass

from torch import Tensor

Slopes = list[Tensor | None]
"""By the signal, by the matrix of channels and taps, and by the shift tensor of every axis."""


@dataclass(frozen=True)
class Wanted:
    """By the signal, by the matrix of channels and taps, by the shift tensors."""

    x: bool
    mixing: bool
    shifts: bool
