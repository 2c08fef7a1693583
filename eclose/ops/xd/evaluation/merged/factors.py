"""Kaleidoscope matrices along one long axis, as chains of batched real products that need no permutation.

A real signal is ``(*rows, n)``, a spectrum ``(n, 2, *rows)``, an index of n being (high, low). The factors of the
merged form act on its high and its low digits in turns (:mod:`eclose.ops.kaleidoscope.monarch`). Each is given
``(other, in * 2, rows)``: the digit that it acts on, and pairs behind that. So a complex matrix is one real matrix, and
out of the product with it comes ``(other, 2 * out, rows)``, of which a view is what the next factor is given.
*Analysis* begins with a real signal, *synthesis* ends with one; with adjoint chains the one is the adjoint of the
other, which is all that the derivatives need.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from eclose.ops.kaleidoscope import KMatrix, monarch
from eclose.ops.xd.algebra.pairs_first import adjoint, turned


@dataclass(frozen=True, eq=False)
class Chain:
    """``A_d ... A_0``: factors ``(2, other, out, in)`` on the low and the high digits in turns."""

    factors: Sequence[Tensor]
    digits: tuple[int, int]  # how many values high and low have
    low_first: bool
    low_last: bool

    @staticmethod
    def of(flat: Tensor, digits: tuple[int, int], directions: Sequence[bool]) -> "Chain":  # (2, numbers)
        """From :func:`flat_factors`; ``directions`` are those of the blocks (:attr:`KMatrix.orders`)."""
        high, low = digits
        on_low, on_high = (high, low, low), (low, high, high)
        shapes = [on_low if (place % 2 == 0) == directions[0] else on_high for place in range(len(directions) + 1)]
        parts = flat.split([math.prod(shape) for shape in shapes], dim=1)
        factors = [part.unflatten(1, shape) for part, shape in zip(parts, shapes, strict=True)]
        return Chain(factors, digits, directions[0], not directions[-1])

    def adjoint(self) -> "Chain":
        """The conjugate transpose."""
        return Chain([adjoint(f) for f in reversed(self.factors)], self.digits, self.low_last, self.low_first)

    def analysis(self, x: Tensor) -> list[Tensor]:  # (*rows, n)
        """What each factor is given; :meth:`spectrum` makes the result of the last."""
        first, *others = self.factors[:-1]
        signals = [self._entering(x.movedim(-1, 0).contiguous().flatten(1).unsqueeze(1))]
        signals.append(_passed(torch.bmm(first.transpose(0, 1).flatten(1, 2), signals[-1])))
        for factor in others:
            signals.append(_passed(torch.bmm(_real(factor).flatten(1, 2), signals[-1])))
        return signals

    def spectrum(self, last: Tensor, rows: Sequence[int]) -> Tensor:
        """``(n, 2, *rows)``: the last factor's result."""
        z = torch.bmm(_real(self.factors[-1]).transpose(1, 2).flatten(1, 2), last)  # (other, out * 2, rows)
        return self._leaving(z.unflatten(1, (-1, 2))).flatten(0, 1).unflatten(-1, rows)

    def synthesis(self, z: Tensor) -> list[Tensor]:  # (n, 2, *rows)
        """What each factor is given; :meth:`real` makes the result of the last."""
        signals = [self._entering(z.flatten(2))]
        for factor in self.factors[:-1]:
            signals.append(_passed(torch.bmm(_real(factor).flatten(1, 2), signals[-1])))
        return signals

    def real(self, last: Tensor, rows: Sequence[int]) -> Tensor:
        """``(*rows, n)``: the real part of the last factor's result."""
        real, imaginary = self.factors[-1]
        y = torch.bmm(torch.stack([real, -imaginary], dim=-1).flatten(2), last)  # (other, out, rows)
        return self._leaving(y).movedim(-1, 0).flatten(1).unflatten(0, rows)

    def _entering(self, z: Tensor) -> Tensor:  # (n, 1 or 2, rows)
        z = z.unflatten(0, self.digits)
        return (z if self.low_first else z.transpose(0, 1)).flatten(1, 2)

    def _leaving(self, z: Tensor) -> Tensor:  # (other, out, ...)
        """``(high, low, ...)``."""
        return z if self.low_last else z.transpose(0, 1)


def flat_factors(matrix: KMatrix) -> Tensor:
    """``(*batch, 2, numbers)``: all factors of the merged form, one behind the other."""
    factors = monarch.factors(matrix.entries, matrix.radices, matrix.orders)
    return torch.cat([factor.movedim(-1, -4).flatten(-3) for factor in factors], dim=-1)


def flattened(factors: Sequence[Tensor]) -> Tensor:  # (2, other, out, in) each
    """``(2, numbers)``: one behind the other."""
    return torch.cat([factor.flatten(1) for factor in factors], dim=1)


def factor_gradients(signals: Sequence[Tensor], cotangents: Sequence[Tensor]) -> list[Tensor]:
    """Of every factor of an analysis: the derivative of its inner product with a cotangent.

    ``signals`` are what the factors were given, ``cotangents`` what those of the adjoint chain were, in a synthesis.
    """
    gradients: list[Tensor] = []
    for before, after in zip(signals, reversed(cotangents), strict=True):
        product = torch.bmm(after, before.mT).unflatten(1, (-1, 2))  # (other, out, 2, in * 2)
        if not gradients:  # the first signal is real
            gradients.append(product.movedim(2, 0))
            continue
        (a, b), (c, d) = (part.unbind(-1) for part in product.unflatten(3, (-1, 2)).unbind(2))
        gradients.append(torch.stack([a + d, c - b]))
    return gradients


def _real(factor: Tensor) -> Tensor:  # (2, other, out, in)
    """``(other, 2, out, in * 2)``: what it does to pairs."""
    return torch.stack([factor, turned(factor)], dim=-1).flatten(-2).transpose(0, 1)


def _passed(z: Tensor) -> Tensor:  # (other, 2 * out, rows)
    """What the next factor is given, ``(out, other * 2, rows)``: a view."""
    return z.unflatten(1, (2, -1)).flatten(0, 1).transpose(0, 1)
