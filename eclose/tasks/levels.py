"""Samples of very different size: whether there are some, and how they are brought nearer to one another.

Currents, counts and intensities differ by orders of magnitude from sample to sample. Divided by the spread of all of
them, most samples are flat lines to a network.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor

from eclose.errors import TaskError
from eclose.ops.standardise import Levelled, Levels
from eclose.signature import Signature
from eclose.tasks.splits import Changed, blocks, some
from eclose.tasks.task import Scale, Split, Task

_POINTS = 8  # of a sample, at least: fewer have hardly a shape
WIDE = 100.0  # times as large: what makes levels very different, from one end to the other
_LEFT = 10.0  # times as large, of the same two
_ENDS = 0.1, 0.5, 0.9
_FLOOR = 1e-6  # of the large ones: less is rounding
_TINY = torch.finfo(torch.float32).tiny  # less is lost in single precision
_VARYING = 0.5  # of the samples: where more are constant, levels tell little


def may_be_levelled(signature: Signature) -> bool:
    """Whether samples are levelled without being asked: not where an answer may be in proportion to its sample."""
    return signature.kind == "classification" and not signature.tokens and math.prod(signature.sizes) >= _POINTS


def measure_levels(split: Split, signature: Signature, scale: Scale) -> tuple[Scale, float]:
    """The scale with the levels of training samples; how many times as large the large ones are.

    One time where no such thing can be said. Means are told from the one in the middle: that of all may be far from
    nearly every sample.
    """
    if signature.tokens:
        raise TaskError("task.standardise is 'levels', which is for numbers, and these are tokens: set it to true")
    places, squares = _places(split, scale.x_std.double())
    varying = squares[squares > 0].sqrt()
    low, unit, high = varying.quantile(torch.tensor(_ENDS).double()) if len(varying) else torch.ones(3).double()
    floor = low.clamp(min=_FLOOR * high)
    wide = float(high / floor) if len(varying) > _VARYING * len(squares) else 1.0
    power = min(1.0, math.log(_LEFT) / math.log(wide)) if wide > 1 else 1.0
    near = squares.clamp(max=high.square())  # a few very large ones, such as 1e20 for no value, do not set the gain
    left = near * (near + floor.square()).pow(power - 1)
    gain = left.mean().rsqrt() if len(varying) else torch.ones(())
    centre = places.median(0).values
    away = places - centre
    units = away.abs().median(0).values.maximum(unit)  # classes may be told by means that are many levels apart
    away = torch.asinh(away / units)
    weight = 1 / away.std(0, correction=0).clamp(min=1.0)
    found = floor.clamp(min=_TINY), torch.tensor(power), gain, units.clamp(min=_TINY), away.mean(0), weight
    levels = Levels(*(value.float() for value in found))
    return replace(scale, x_mean=(centre * scale.x_std).float(), levels=levels), wide


def differ_in_size(levels: Levels) -> str:
    """What the user is told where she did not ask for levels."""
    times = float(f"{_LEFT ** (1 / float(levels.power)):.1g}")
    return (
        f"large samples are about {times:,.0f} times as large as small ones: each keeps its shape, and their sizes are "
        "brought nearer to one another (task.standardise=channels leaves them as they are)"
    )


def levelled(task: Task) -> Task:
    """The task as networks see it behind the levels of its inputs; itself if it has none."""
    if (scale := task.scale) is None or scale.levels is None:
        return task
    change = Levelled(scale.x_mean, scale.x_std, scale.levels, task.signature.axes)
    splits = {name: Changed(split.x, split.y, before=split, change=change) for name, split in task.splits.items()}
    return task.with_splits(splits)


def _places(split: Split, std: Tensor) -> tuple[Tensor, Tensor]:
    """Of every sample the means of its channels, and the square of its level; in units of the spread."""
    part, found = some(split), []
    for index in blocks(part):
        x = part.take(index)[0].float().double().flatten(2)  # in single precision, as networks see them
        middle = x.mean(2)
        squares = ((x - middle[..., None]) / std[:, None]).square().mean((1, 2))
        found.append((middle / std, squares))
    places, squares = (torch.cat(each) for each in zip(*found, strict=True))
    return places, squares
