"""What single outputs of an operation see of their input, and how far its matrices are from unitary ones.

A convolution has the same filter at every place, a K-operation may have others (Chrysalis paper, Figure 2).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call

from eclose.ops.kaleidoscope import Kaleidoscope
from eclose.ops.xd.operation import XD
from eclose.ops.xd.starts.plain_layer import plain_layer

LARGEST = 1024
"""Rows of a matrix whose singular values are computed."""


@dataclass(frozen=True, eq=False)
class Filters:
    """By what the inputs are multiplied for some outputs: of the convolution with these weights, at the start, now."""

    places: tuple[tuple[int, ...], ...]  # of the outputs
    channels: tuple[tuple[int, int], ...]  # output and input
    centres: tuple[tuple[int, ...], ...]  # of what the convolution sees of the input, from each place
    seen: Tensor  # (places, *sizes), whether the convolution looks there
    convolution: Tensor  # (places, *sizes)
    start: Tensor
    found: Tensor

    @property
    def within(self) -> float:
        """The share of what was found, by squares, that lies where the convolution looks."""
        squares = self.found.square()
        whole = float(squares.sum())
        return float(squares[self.seen].sum()) / whole if whole else 0.0


def filters_at_random(operation: XD, number: int, generator: torch.Generator) -> Filters:
    """Of so many outputs, at places and of channels that are drawn."""

    def drawn(below: int) -> list[int]:
        return torch.randint(below, (number,), generator=generator).tolist()

    places = list(zip(*(drawn(axis.out) for axis in operation.axes), strict=True))
    of_group = (operation.out_channels // operation.groups, operation.in_channels // operation.groups)
    drawn_pairs = zip(drawn(operation.out_channels), drawn(of_group[1]), strict=True)
    channels = [(output, output // of_group[0] * of_group[1] + within) for output, within in drawn_pairs]
    start = {f"architecture.{name}": value.to(operation.weight) for name, value in operation.architecture.start.items()}

    def plain(x: Tensor, weight: Tensor = operation.weight) -> Tensor:
        return plain_layer(x, weight, None, operation.axes, operation.groups)

    def looks(x: Tensor) -> Tensor:
        return plain(x, torch.ones_like(operation.weight))

    def at_start(x: Tensor) -> Tensor:
        answer: Tensor = functional_call(operation, start, (x,))
        return answer

    seen, *rows = (_rows(answer, operation, places, channels) for answer in (looks, plain, at_start, operation))
    centres = tuple(_centre(operation, place) for place in places)
    return Filters(tuple(places), tuple(channels), centres, seen != 0, *rows)


@torch.enable_grad()
def _rows(
    answer: Callable[[Tensor], Tensor],
    operation: XD,
    places: Sequence[tuple[int, ...]],
    channels: Sequence[tuple[int, int]],
) -> Tensor:
    """Derivatives of single outputs by the input: the rows of a linear map, up to what every output has besides."""
    sizes = [axis.size for axis in operation.axes]
    x = operation.weight.new_zeros(len(places), operation.in_channels, *sizes).requires_grad_()
    y = answer(x)
    outputs = [
        y[(number, output, *place)] for number, (place, (output, _)) in enumerate(zip(places, channels, strict=True))
    ]
    (slopes,) = torch.autograd.grad(torch.stack(outputs).sum(), x)
    return torch.stack([slopes[number, channel] for number, (_, channel) in enumerate(channels)]).cpu().double()


def _centre(operation: XD, place: Sequence[int]) -> tuple[int, ...]:
    """The middle of a convolution's window, or the end of the input that is nearest to it."""
    middles = [
        p * axis.stride - axis.left + axis.dilation * (axis.kernel - 1) // 2
        for p, axis in zip(place, operation.axes, strict=True)
    ]
    return tuple(min(max(0, middle), axis.size - 1) for middle, axis in zip(middles, operation.axes, strict=True))


@torch.no_grad()
def from_unitary(matrices: Sequence[Kaleidoscope]) -> float | None:
    """The relative distance of a Kronecker product from the nearest unitary matrix; None where it is too large.

    It is the root mean square of ``s - 1`` over the singular values s, which are products of those of the factors.
    """
    if max(part.matrix.size for part in matrices) > LARGEST:
        return None
    squares = mean = 1.0
    for part in matrices:
        values = torch.linalg.svdvals(torch.view_as_complex(part.dense().cpu().double().contiguous()))
        squares, mean = squares * float(values.square().mean()), mean * float(values.mean())
    return max(0.0, squares - 2 * mean + 1) ** 0.5
