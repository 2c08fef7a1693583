"""What an operation makes of an impulse, at several places of its input: beside its start, for people to look at."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call

from eclose.ops.kaleidoscope import pairs
from eclose.ops.xd.axes.axis import Axis
from eclose.ops.xd.axes.fourier import FrequencyAxis
from eclose.ops.xd.axes.transposed import TransposedAxis
from eclose.ops.xd.operation import XD

_PLACES = (0.2, 0.5, 0.8)  # along every axis, as parts of its size


@dataclass(frozen=True, eq=False)
class Responses:
    """Outputs of one channel for an impulse of size 1 in another, without the bias that every output has."""

    places: tuple[tuple[int, ...], ...]  # of the impulses
    sizes: tuple[int, ...]  # of the input
    channels: tuple[int, int]  # output and input
    start: Tensor  # (places, *outs)
    found: Tensor
    shifts: tuple[tuple[int, ...], ...] | None  # of the outputs from the first place to each; None: there are none

    @property
    def variance(self) -> tuple[float | None, float | None]:
        """How unlike the responses of the start and of what was found are, once they are shifted onto each other."""
        if self.shifts is None:
            return None, None
        return _variance(self.start, self.shifts), _variance(self.found, self.shifts)


@torch.no_grad()
def impulse_responses(operation: XD) -> Responses:
    """Of the pair of channels with the largest weights, at three places."""
    places = _places(operation.axes)
    output, channel = strongest_channels(operation)
    sizes = tuple(axis.size for axis in operation.axes)
    impulses = operation.weight.new_zeros(len(places) + 1, operation.in_channels, *sizes)
    for number, place in enumerate(places):
        impulses[(number, channel, *place)] = 1
    start = {f"architecture.{name}": value.to(impulses) for name, value in operation.architecture.start.items()}
    training = operation.training
    operation.eval()  # weights that are computed stay as they are
    try:
        before, now = functional_call(operation, start, (impulses,)), operation(impulses)
    finally:
        operation.train(training)
    first, second = (answer[:, output].cpu().double() for answer in (before, now))
    answers = first[:-1] - first[-1], second[:-1] - second[-1]
    return Responses(places, sizes, (output, channel), *answers, _shifts(operation.axes, places))


def strongest_channels(operation: XD) -> tuple[int, int]:
    """Output and input channel of the largest weights, gates included."""
    sizes = operation.taps().detach().cpu().double().flatten(2).norm(dim=2)
    if (gates := operation.architecture.C) is not None:
        told = gates.detach().cpu()
        sizes = sizes * (pairs.to_complex(told) if operation.architecture.complex_gates else told).abs()
    output, within = divmod(int(sizes.argmax()), sizes.shape[1])
    group = output // (operation.out_channels // operation.groups)
    return output, group * sizes.shape[1] + within


def _places(axes: Sequence[Axis]) -> tuple[tuple[int, ...], ...]:
    """Places a whole number of strides apart, so that each meets the same taps."""
    along = []
    for axis in axes:
        step = 1 if isinstance(axis, TransposedAxis) else axis.stride
        middle = axis.size // 2
        reach = [round((part - 0.5) * axis.size / step) * step for part in _PLACES]
        along.append([min(max(middle + far, middle % step), axis.size - 1) for far in reach])
    return tuple(dict.fromkeys(zip(*along, strict=True)))


def _shifts(axes: Sequence[Axis], places: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...] | None:
    if type(axes[0]) not in (Axis, TransposedAxis, FrequencyAxis):
        return None  # nodes of a graph have no neighbours in their numbers
    shifts = []
    for place in places:
        moved = [here - before for here, before in zip(place, places[0], strict=True)]
        if any(far % axis.stride for far, axis in zip(moved, axes, strict=True) if type(axis) is Axis):
            return None
        steps = [(axis.stride, 1) if isinstance(axis, TransposedAxis) else (1, axis.stride) for axis in axes]
        shifts.append(tuple(far * up // down for far, (up, down) in zip(moved, steps, strict=True)))
    return tuple(shifts)


def _variance(responses: Tensor, shifts: Sequence[tuple[int, ...]]) -> float | None:
    """The largest relative distance of two responses, where both can be seen once they are shifted."""
    pairs_of = list(itertools.combinations(range(len(responses)), 2))
    if not pairs_of:
        return None
    unlike = [0.0]
    for one, other in pairs_of:
        far = [b - a for a, b in zip(shifts[one], shifts[other], strict=True)]
        first, second = responses[one], responses[other]
        for axis, step in enumerate(far):
            length = first.shape[axis] - abs(step)
            if length < 1:
                return None
            first = first.narrow(axis, max(0, -step), length)
            second = second.narrow(axis, max(0, step), length)
        size = max(first.norm().item(), second.norm().item())
        unlike.append((first - second).norm().item() / size if size else 0.0)
    return max(unlike)
