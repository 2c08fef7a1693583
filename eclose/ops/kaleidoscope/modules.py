"""Kaleidoscope matrices whose entries are trained: by themselves, and between all pairs of channels of a signal."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from eclose.ops.kaleidoscope.elementary import deepened, unitary
from eclose.ops.kaleidoscope.matrix import KMatrix
from eclose.ops.kaleidoscope.sizes import Radices, next_smooth

_LARGEST = 5  # prime factor of a matrix's size
_LETTERS = "xyz"  # of the axes, for einsum


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


class KaleidoscopeLayer(nn.Module):
    """K-layers (Dao et al. 2020), the baseline of the Chrysalis paper: every pair of channels has matrices of its own.

    ``y_i = sum_j Real((K_ij1 x .. x K_ijN) x_j) + bias_i`` for signals of fixed ``sizes`` on N axes.

    On images a pair of channels has two K-matrices. They begin as random unitary ones, so that a signal keeps its size.
    """

    def __init__(self, in_channels: int, out_channels: int, sizes: Sequence[int], depth: int = 2) -> None:
        super().__init__()
        self.sizes, pairs = tuple(sizes), (out_channels, in_channels)
        self.matrices = nn.ModuleList(Kaleidoscope(next_smooth(n, _LARGEST), depth, batch=pairs) for n in self.sizes)
        self.scale = (2 / in_channels) ** 0.5  # of a unitary matrix the real part keeps half of the squares
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def forward(self, x: Tensor) -> Tensor:  # (batch, c_in, *sizes)
        """``(batch, c_out, *sizes)``."""
        axes = _LETTERS[: len(self.sizes)]
        parts, pairs = [x * self.scale], ""
        for place in reversed(range(len(axes))):
            size, letter = self.sizes[place], axes[place]
            matrix = (
                cast(Kaleidoscope, self.matrices[place]).dense()[..., :size, :size, :].unbind(-1)
            )  # real and imaginary part
            kept = "" if place == 0 else "i"  # inputs are summed up with the last of the axes
            formula = f"b{pairs}i{axes},oin{letter}->bo{kept}{axes.replace(letter, 'n')}"
            parts = _times(parts, matrix, formula, real=place == 0)
            pairs = "o"
        return parts[0] + self.bias.view(-1, *[1] * len(axes))

    def extra_repr(self) -> str:
        """Sizes."""
        return f"sizes={self.sizes}"


def _times(parts: list[Tensor], matrix: Sequence[Tensor], formula: str, *, real: bool) -> list[Tensor]:
    """Signal times matrix, both complex; the signal may still be real, and of the output only the real part asked."""

    def product(signal: Tensor, factor: Tensor) -> Tensor:
        return torch.einsum(formula, signal, factor)

    found = [product(parts[0], matrix[0])]
    if len(parts) > 1:
        found[0] = found[0] - product(parts[1], matrix[1])
    if not real:
        turned = product(parts[0], matrix[1])
        found.append(turned + product(parts[1], matrix[0]) if len(parts) > 1 else turned)
    return found
