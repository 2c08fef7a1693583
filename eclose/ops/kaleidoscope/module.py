"""Kaleidoscope matrices whose entries are trained."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from eclose.ops.kaleidoscope.elementary import deepened, unitary
from eclose.ops.kaleidoscope.matrix import KMatrix
from eclose.ops.kaleidoscope.sizes import Radices


class Kaleidoscope(nn.Module):
    """``y = K x`` with ``K = B_d ... B_1`` of trained entries; ``batch`` of such matrices together.

    Starts as ``start``, which brings its radices and order of strides and gets identity blocks up to ``depth``;
    without it as a random unitary matrix. The entries, one real tensor of pairs, are exempt from weight
    decay: zero is no natural place for them.
    """

    undecayed = ("entries",)

    def __init__(
        self,
        size: int,
        depth: int | None = None,
        *,
        batch: Sequence[int] = (),
        radices: Radices | None = None,
        increasing: bool = False,
        start: KMatrix | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if start is None:
            start = unitary(size, depth or 1, batch=batch, radices=radices, increasing=increasing, generator=generator)
        elif start.size != size:
            raise ValueError(f"the start has size {start.size}, not {size}")
        start = deepened(start, depth or start.depth)
        entries = start.entries.detach().expand(*(batch or start.batch), *start.entries.shape[-3:])
        self.radices, self.increasing = start.radices, start.increasing
        self.entries = nn.Parameter(entries.clone())

    @property
    def matrix(self) -> KMatrix:
        """The matrix as it is now; gradients reach the entries."""
        return KMatrix(self.entries, self.radices, self.increasing)

    def dense(self) -> Tensor:
        """``(*batch, n, n, 2)``."""
        return self.matrix.dense()

    def forward(self, x: Tensor) -> Tensor:  # (*batch, *vectors, n, 2)
        """``(*batch, *vectors, n, 2)``."""
        return self.matrix.apply(x)

    def extra_repr(self) -> str:
        """Size, radices, depth and order of the first block."""
        matrix = self.matrix
        first = "increasing" if self.increasing else "decreasing"
        shape = f"size={matrix.size}, radices={self.radices}, depth={matrix.depth}"
        return f"{shape}, first={first}, batch={tuple(matrix.batch)}"
