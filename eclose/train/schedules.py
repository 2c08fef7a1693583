"""How the learning rate moves: stateless functions of the epochs done, so that a resumed run needs no state.

Each schedule maps ``(progress, total)``, both in epochs or parts of them, to a factor of the base rate.
"""

import math
from collections.abc import Mapping
from typing import Any

from eclose.errors import ConfigError
from eclose.registry import Registry

schedules = Registry("schedule")

# progress is a quotient of step numbers: 0.3 / 0.1 must count as three whole periods
_ROUNDING = 1e-9


def rate(name: str, progress: float, total: float, warmup_epochs: float, options: Mapping[str, Any]) -> float:
    """Factor of the base rate after ``progress`` of ``total`` epochs.

    It rises as ``progress / warmup_epochs`` first; the schedule then runs over the epochs that remain and
    counts (milestones, periods) from the end of the warm-up. Calling it at 0 checks the options.
    """
    member = schedules[name]
    settings = member.complete(options, "schedule")
    after = max(progress - warmup_epochs, 0.0)
    factor: float = member.make(after, max(total - warmup_epochs, 0.0), **settings)
    return progress / warmup_epochs if progress < warmup_epochs else factor


@schedules.register("constant")
def constant(progress: float, total: float) -> float:
    """Always the base rate."""
    return 1.0


@schedules.register("linear")
def linear(progress: float, total: float, *, final: float = 0.0) -> float:
    """Straight from 1 to ``final``."""
    return 1.0 + (final - 1.0) * _share(progress, total)


@schedules.register("cosine")
def cosine(progress: float, total: float, *, final: float = 0.0) -> float:
    """Half a cosine from 1 to ``final``: ``final + (1 - final) (1 + cos(pi progress / total)) / 2``."""
    return _half_cosine(_share(progress, total), final)


@schedules.register("step")
def step(
    progress: float,
    total: float,
    *,
    factor: float = 0.5,
    every: float = 0.0,
    milestones: tuple[float, ...] = (),
) -> float:
    """Times ``factor`` after ``every`` so many epochs, or at each of the ``milestones``."""
    if every < 0 or (every > 0) == bool(milestones):
        raise ConfigError(
            "schedule 'step' needs either 'every' (epochs between steps) or 'milestones' (a list of epochs), "
            f"but every is {every} and milestones are {list(milestones)}"
        )
    if every > 0:
        return factor ** math.floor(progress / every + _ROUNDING)
    return factor ** _passed(progress, milestones)


@schedules.register("piecewise")
def piecewise(
    progress: float, total: float, *, milestones: tuple[float, ...] = (), values: tuple[float, ...] = ()
) -> float:
    """1 before the first of the ``milestones``, then the one of the ``values`` that belongs to the last."""
    if len(milestones) != len(values) or list(milestones) != sorted(milestones):
        raise ConfigError(
            "schedule 'piecewise' needs rising 'milestones' and as many 'values', "
            f"but milestones are {list(milestones)} and values {list(values)}"
        )
    return float((1.0, *values)[_passed(progress, milestones)])


@schedules.register("restarts")
def restarts(
    progress: float, total: float, *, period: float = 10.0, multiply: float = 1.0, final: float = 0.0
) -> float:
    """SGDR: half cosines from 1 to ``final``, first ``period`` epochs, then ``multiply`` times as long."""
    if period <= 0 or multiply < 1:
        raise ConfigError(
            "schedule 'restarts' needs a period above 0 and multiply of at least 1, "
            f"but period is {period} and multiply is {multiply}"
        )
    if multiply == 1:
        progress -= period * math.floor(progress / period + _ROUNDING)
    while progress >= period * (1 - _ROUNDING):
        progress -= period
        period *= multiply
    return _half_cosine(max(progress, 0.0) / period, final)


def _share(progress: float, total: float) -> float:
    """The part that is done, at most 1; a training without epochs has done nothing."""
    return min(progress / total, 1.0) if total > 0 else 0.0


def _half_cosine(share: float, final: float) -> float:
    return final + (1.0 - final) * 0.5 * (1.0 + math.cos(math.pi * share))


def _passed(progress: float, milestones: tuple[float, ...]) -> int:
    if not all(isinstance(milestone, int | float) for milestone in milestones):
        raise ConfigError(f"milestones are {list(milestones)}, but must be numbers of epochs")
    return sum(progress >= milestone - _ROUNDING for milestone in milestones)
