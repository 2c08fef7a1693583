"""The nearest convolution: dilation and place of the taps on every axis, and one scale, by least squares."""

import torch
from torch import Tensor
from torch.nn import functional as F

from eclose.ops.xd.axes.axis import Axis
from eclose.ops.xd.inspection.linear_map import LinearMap
from eclose.ops.xd.inspection.nearest.named_operation import Named, spoken
from eclose.ops.xd.inspection.nearest.reading import Reading, reading

TIE = 1 - 1e-9
"""Fits whose energies have at least this ratio are equally good: the simplest is taken."""


def convolution(linear_map: LinearMap) -> Named:
    """With the number of taps, the stride and the padding mode of the start."""
    fitted, dilations, moves, scale = [], [], [], complex(1)
    for place, (axis, shifts) in enumerate(zip(linear_map.axes, linear_map.shifts, strict=True)):
        looks = reading(axis, causal=linear_map.causal and place == len(linear_map.axes) - 1)
        dilation, begin = _places(axis, shifts, looks)
        unit = looks.shifts(begin + dilation * torch.arange(len(shifts)))
        rate = rate_of(shifts, unit)
        fitted.append(rate * unit)
        scale *= rate
        dilations.append(dilation)
        moves.append(_move(axis, dilation, begin, looks.period))
    moved = f", shifted by {spoken(moves)}" if any(moves) else ""
    return Named(
        "convolution",
        f"with dilation {spoken(dilations)}{moved}",
        {"dilation": tuple(dilations), "shift": tuple(moves), "scale": scale.real},
        linear_map.residual(shifts=fitted),
    )


def rate_of(tensor: Tensor, unit: Tensor) -> complex:
    """What a real tensor is to be multiplied by to come nearest to another one; 0 if it is zero."""
    square = unit.abs().square().sum().item()
    return complex(torch.vdot(unit.flatten(), tensor.flatten())) / square if square else 0j


def _places(axis: Axis, shifts: Tensor, looks: Reading) -> tuple[int, int]:
    """Dilation and place of the first tap that hold most energy; those of the start where nothing holds more."""
    taps = torch.arange(len(shifts))
    sums = F.pad(torch.stack([looks.along(tap) for tap in shifts]), (0, 1))  # (kernel, places + 1)
    counts = F.pad(looks.counts, (0, 1))

    def energies(dilation: int, begins: Tensor) -> Tensor:
        columns = looks.columns(begins.unsqueeze(1) + dilation * taps)
        total = sums[taps, columns].sum(1).abs().square()
        return total / counts[columns].sum(1).clamp(min=1)

    best = axis.dilation, -axis.left
    most = energies(best[0], torch.tensor([best[1]])).item()
    reach = axis.size - 1
    first = -reach if looks.period else looks.first - reach
    begins = torch.arange(first, 1 if looks.period else looks.first + looks.sources.shape[1])
    for dilation in range(1, max(1, reach // max(1, axis.kernel - 1)) + 1):
        highest, place = energies(dilation, begins).max(0)
        if most < TIE * highest.item():
            most, best = highest.item(), (dilation, int(begins[place]))
    return best


def _move(axis: Axis, dilation: int, begin: int, period: int | None) -> float:
    """How far the middle of the taps is from where it started."""
    move = begin + axis.left + (dilation - axis.dilation) * (axis.kernel - 1) / 2
    return move if period is None else (move + period / 2) % period - period / 2
