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
_FIRST = 0.1  # factor that a warm-up by share begins with
_SHORTEST = 1e-3  # epochs between two changes


def rate(
    name: str, progress: float, total: float, warmup_epochs: float, options: Mapping[str, Any], *, warmup: float = 0.0
) -> float:
    """Factor of the base rate after ``progress`` of ``total`` epochs.

    It rises first: from zero as ``progress / warmup_epochs``, or from a tenth over the share ``warmup`` of the epochs.
    The schedule then runs over those that remain and counts (milestones, periods) from the end of the warm-up.
    Calling it at 0 checks the options.
    """
    member = schedules[name]
    settings = member.complete(options, "schedule")
    rise = warmup_epochs or warmup * total
    after = max(progress - rise, 0.0)
    factor: float = member.make(after, max(total - rise, 0.0), **settings)
    if progress >= rise:
        return factor
    least = 0.0 if warmup_epochs else _FIRST  # a training of few steps has none to lose
    return least + (1.0 - least) * progress / rise


def phase_of(progress: float, total: float, phases: int) -> int:
    """In which of so many equal parts of a training it is, from 0."""
    return min(math.floor(phases * _share(progress, total) + _ROUNDING), phases - 1)


@schedules.register("constant")
def constant(progress: float, total: float) -> float:
    """Always the base rate."""
    return 1.0


@schedules.register("linear")
def linear(progress: float, total: float, *, final: float = 0.0) -> float:
    """Straight from 1 to ``final``."""
    _need(0.0, final=final)
    return 1.0 + (final - 1.0) * _share(progress, total)


@schedules.register("cosine")
def cosine(progress: float, total: float, *, final: float = 0.0) -> float:
    """Half a cosine from 1 to ``final``: ``final + (1 - final) (1 + cos(pi progress / total)) / 2``."""
    _need(0.0, final=final)
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
    _need(0.0, factor=factor)
    if (every != 0) == bool(milestones):
        raise ConfigError(
            "schedule 'step' needs either 'every' (epochs between steps) or 'milestones' (a list of epochs), "
            f"but every is {every} and milestones are {list(milestones)}"
        )
    if milestones:
        return _power(factor, _passed(progress, milestones))
    _need(_SHORTEST, every=every)
    return _power(factor, math.floor(progress / every + _ROUNDING))


@schedules.register("piecewise")
def piecewise(
    progress: float, total: float, *, milestones: tuple[float, ...] = (), values: tuple[float, ...] = ()
) -> float:
    """1 before the first of the ``milestones``, then the one of the ``values`` that belongs to the last."""
    passed = _passed(progress, milestones)
    _need(0.0, **{f"values[{number}]": value for number, value in enumerate(values)})
    if len(milestones) != len(values) or list(milestones) != sorted(milestones):
        raise ConfigError(
            "schedule 'piecewise' needs rising 'milestones' and as many 'values', "
            f"but milestones are {list(milestones)} and values {list(values)}"
        )
    return float((1.0, *values)[passed])


@schedules.register("restarts")
def restarts(
    progress: float, total: float, *, period: float = 10.0, multiply: float = 1.0, final: float = 0.0
) -> float:
    """SGDR: half cosines from 1 to ``final``, first ``period`` epochs, then ``multiply`` times as long."""
    _need(_SHORTEST, period=period)
    _need(1.0, multiply=multiply)
    _need(0.0, final=final)
    if multiply == 1:
        progress -= period * math.floor(progress / period + _ROUNDING)
    while progress >= period * (1 - _ROUNDING):
        progress -= period
        period *= multiply
    return _half_cosine(max(progress, 0.0) / period, final)


def _need(least: float, **options: Any) -> None:
    for name, value in options.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not least <= value < math.inf:
            raise ConfigError(f"schedule.{name} is {value!r}, but must be a finite number of at least {least:g}")


def _power(factor: float, count: int) -> float:
    try:
        return factor**count
    except OverflowError:
        raise ConfigError(f"schedule.factor is {factor}, whose power {count} is too large: lower it") from None


def _share(progress: float, total: float) -> float:
    """The part that is done, at most 1; a training without epochs has done nothing."""
    return min(progress / total, 1.0) if total > 0 else 0.0


def _half_cosine(share: float, final: float) -> float:
    return final + (1.0 - final) * 0.5 * (1.0 + math.cos(math.pi * share))


def _passed(progress: float, milestones: tuple[float, ...]) -> int:
    if not all(isinstance(milestone, int | float) and math.isfinite(milestone) for milestone in milestones):
        raise ConfigError(f"milestones are {list(milestones)}, but must be numbers of epochs")
    return sum(progress >= milestone - _ROUNDING for milestone in milestones)
