"""Kaleidoscope matrices (Dao et al. 2020): products of butterfly blocks whose stride order alternates."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from eclose.ops.kaleidoscope import butterfly, monarch, pairs
from eclose.ops.kaleidoscope.materialise import dense
from eclose.ops.kaleidoscope.sizes import Radices

MERGE_FROM = 512
"""From this size on, signals pass through two batched products a block and not through the dense matrix."""


@dataclass(frozen=True, eq=False)
class KMatrix:
    """``K = B_d ... B_2 B_1``, B_1 being applied first; its depth d is the number of blocks.

    The strides within a block decrease or increase, in turns. ``increasing`` says which it is in B_1.
    A block of increasing strides is stored as its transpose (see :mod:`eclose.ops.kaleidoscope.butterfly`).
    """

    entries: Tensor  # (*batch, depth, n * sum(radices), 2)
    radices: Radices
    increasing: bool = False

    def __post_init__(self) -> None:
        expected = (butterfly.entries_of(self.radices), 2)
        if self.entries.dim() < 3 or self.entries.shape[-2:] != expected or self.depth < 1:
            raise ValueError(
                f"entries of shape {tuple(self.entries.shape)} given; stages of radices {self.radices} "
                f"need (*batch, depth, {expected[0]}, 2)"
            )

    @property
    def size(self) -> int:
        """Rows, and columns, of the matrix."""
        return math.prod(self.radices)

    @property
    def depth(self) -> int:
        """Number of blocks."""
        return self.entries.shape[-3]

    @property
    def batch(self) -> torch.Size:
        """Leading dimensions: so many matrices are held together."""
        return self.entries.shape[:-3]

    @property
    def orders(self) -> tuple[bool, ...]:
        """Of every block, the first applied first: do its strides increase?"""
        return tuple((block % 2 == 1) != self.increasing for block in range(self.depth))

    @property
    def mT(self) -> "KMatrix":  # noqa: N802 (as in torch)
        """The transpose: the same entries, blocks in the other order."""
        return replace(self, entries=self.entries.flip(-3), increasing=not self.orders[-1])

    def conj(self) -> "KMatrix":
        """The conjugate, of the same depth."""
        return replace(self, entries=pairs.conjugate(self.entries))

    @property
    def mH(self) -> "KMatrix":  # noqa: N802 (as in torch)
        """The conjugate transpose: the inverse of a unitary matrix."""
        return self.mT.conj()

    def to(self, *args: object, **kwargs: object) -> "KMatrix":
        """On another device or in another precision, as ``Tensor.to``."""
        return replace(self, entries=self.entries.to(*args, **kwargs))  # type: ignore[call-overload]

    def __matmul__(self, other: "KMatrix") -> "KMatrix":
        """``self other`` (batches broadcast); an identity block comes between two blocks of the same stride order."""
        if self.radices != other.radices:
            raise ValueError(f"matrices of radices {self.radices} and {other.radices} cannot be multiplied")
        batch = torch.broadcast_shapes(self.batch, other.batch)
        parts = [other.entries.expand(*batch, *other.entries.shape[-3:])]
        if other.orders[-1] == self.increasing:
            parts.append(butterfly.identity(self.radices, self.entries).expand(*batch, 1, -1, -1))
        parts.append(self.entries.expand(*batch, *self.entries.shape[-3:]))
        return replace(other, entries=torch.cat(parts, dim=-3))

    def dense(self) -> Tensor:
        """``(*batch, n, n, 2)``."""
        return dense([self])[0]

    def apply(self, x: Tensor, *, merged: bool | None = None) -> Tensor:  # (*batch, *vectors, n, 2)
        """``K x`` for pairs ``x``, whose leading dimensions begin with the batch of the matrix.

        ``merged``: through two block-diagonal products a block, without the dense matrix (default from
        n = 512 on).
        """
        if x.shape[-2:] != (self.size, 2) or x.shape[: len(self.batch)] != self.batch:
            raise ValueError(
                f"a signal of shape {tuple(x.shape)} given; the matrix takes "
                f"({', '.join(map(str, self.batch))}{', ' if self.batch else ''}*vectors, {self.size}, 2)"
            )
        rows = x.reshape(*self.batch, -1, self.size, 2)
        if len(self.radices) > 1 and (self.size >= MERGE_FROM if merged is None else merged):
            return monarch.apply(self.entries, self.radices, self.orders, rows).reshape(x.shape)
        return pairs.matmul(rows, self.dense().transpose(-3, -2)).reshape(x.shape)


def apply_kronecker(matrices: Sequence[KMatrix], x: Tensor) -> Tensor:  # (..., n_1, .., n_N, 2)
    """``(K_1 x K_2 x .. x K_N) x``, axis by axis; the flattened signal is never multiplied.

    Batch dimensions of the matrices, where they have any, are the first of the signal.
    """
    for axis, matrix in enumerate(matrices, start=-1 - len(matrices)):
        x = matrix.apply(x.movedim(axis, -2)).movedim(-2, axis)
    return x
