"""K-layers (Dao et al. 2020), the baseline of the Chrysalis paper: every pair of channels has matrices of its own."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from eclose.ops.kaleidoscope.module import Kaleidoscope
from eclose.ops.kaleidoscope.sizes import next_smooth

_LARGEST = 5  # prime factor of a matrix's size
_LETTERS = "xyz"  # of the axes, for einsum


class KaleidoscopeLayer(nn.Module):
    """``y_i = sum_j Real((K_ij1 x .. x K_ijN) x_j) + bias_i`` for signals of fixed ``sizes`` on N axes.

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
