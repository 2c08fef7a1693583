"""Kaleidoscope matrices along one long axis, as chains of batched real products that need no permutation.

A signal is ``(n, *rows)``, an index being (high, low). The factors of the merged form act on its high and its low
digits in turns (:mod:`eclose.ops.kaleidoscope.monarch`), so ``(2, low, high, rows)`` and ``(2, high, low, rows)``
alternate, each a view of what came out of the product before. Complex values are pairs along the first dimension.
*Analysis* begins with a real signal, *synthesis* ends with one; with adjoint chains the one is the adjoint of the
other, which is all that the derivatives need.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from eclose.ops.kaleidoscope import KMatrix, monarch
from eclose.ops.xd.transforms import adjoint, product


@dataclass(frozen=True, eq=False)
class Chain:
    """``A_d ... A_0``: factors ``(2, other, out, in)`` on the low and the high digits in turns."""

    factors: Sequence[Tensor]
    digits: tuple[int, int]  # how many values high and low have
    low_first: bool
    low_last: bool

    @staticmethod
    def of(matrix: KMatrix) -> "Chain":
        """The merged form of a matrix."""
        factors = monarch.factors(matrix.entries, matrix.radices, matrix.orders)
        parts = [factor.movedim(-1, 0).contiguous() for factor in factors]
        return Chain(parts, monarch.halves(matrix.radices), matrix.orders[0], not matrix.orders[-1])

    def to(self, dtype: torch.dtype) -> "Chain":
        """In another precision."""
        return replace(self, factors=[factor.to(dtype) for factor in self.factors])

    def adjoint(self) -> "Chain":
        """The conjugate transpose."""
        return Chain([adjoint(f) for f in reversed(self.factors)], self.digits, self.low_last, self.low_first)

    def analysis(self, x: Tensor) -> list[Tensor]:  # (n, *rows), real
        """What each factor is given; the result ``(2, n, *rows)`` comes last."""
        first, *others = self.factors
        found = [self._entering(x.flatten(1))]
        z = torch.bmm(first.transpose(0, 1).flatten(1, 2), found[0])  # (other, 2 * out, rows)
        found.append(z.unflatten(1, (2, -1)).permute(1, 2, 0, 3))
        for factor in others:
            found.append(product(factor, found[-1]).transpose(1, 2))
        found[-1] = self._leaving(found[-1]).unflatten(-1, x.shape[1:])
        return found

    def synthesis(self, z: Tensor) -> list[Tensor]:  # (2, n, *rows)
        """What each factor is given; :meth:`real` makes the result of the last."""
        found = [self._entering(z.flatten(2))]
        for factor in self.factors[:-1]:
            found.append(product(factor, found[-1]).transpose(1, 2))
        return found

    def real(self, last: Tensor, rows: Sequence[int]) -> Tensor:
        """``(n, *rows)``: the real part of the last factor's result."""
        (real, imaginary), (z_real, z_imaginary) = self.factors[-1], last
        y = torch.baddbmm(torch.bmm(real, z_real), imaginary, z_imaginary, alpha=-1)
        return self._leaving(y.transpose(0, 1)).unflatten(-1, rows)

    def _entering(self, z: Tensor) -> Tensor:  # (..., n, rows)
        z = z.unflatten(-2, self.digits)
        return z if self.low_first else z.transpose(-3, -2)

    def _leaving(self, z: Tensor) -> Tensor:  # (..., high or low, low or high, rows)
        return (z.transpose(-3, -2) if self.low_last else z).flatten(-3, -2)


def derivatives(signals: Sequence[Tensor], cotangents: Sequence[Tensor]) -> list[Tensor]:
    """Of every factor of an analysis: the derivative of its inner product with a cotangent.

    ``signals`` are what the factors were given, ``cotangents`` what those of the adjoint chain were, in a synthesis.
    """
    first, *others = zip(signals, reversed(cotangents), strict=True)
    found = [torch.stack([torch.bmm(part, first[0].mT) for part in first[1]])]  # the first signal is real
    return found + [product(after, before.mT, conjugate=True) for before, after in others]
