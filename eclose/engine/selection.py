"""How a strategy that compares many genotypes chooses between their trials."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from eclose.engine.pareto import fronts
from eclose.errors import ConfigError
from eclose.registry import nearest
from eclose.runs import OBJECTIVES, Figure, Trial
from eclose.train.metrics import Goal


@dataclass(frozen=True)
class Selection:
    """What counts, which trainings end early, and what is tried at all."""

    objectives: tuple[str, ...] = ("error",)  # `error`: the metric of the task on validation
    halving: int = 3  # at each rung the best 1/halving go on; 0: all do
    prefilter: int = 0  # networks that are scored for every one that is trained; 0: none is
    learn: float = 0.0  # how far the probabilities of the space follow the best trials

    def check(self) -> None:
        """Refuse values out of range."""
        for name in self.objectives:
            if name not in OBJECTIVES:
                raise ConfigError(f"strategy.objectives: unknown objective '{name}'; {nearest(name, OBJECTIVES)}")
        if "error" not in self.objectives:
            raise ConfigError("strategy.objectives must contain 'error': others alone are met by a network of nothing")
        if self.halving == 1 or self.halving < 0:
            raise ConfigError(f"strategy.halving is {self.halving}, but must be 0 (off) or at least 2")
        if self.prefilter < 0:
            raise ConfigError(f"strategy.prefilter is {self.prefilter}, but must be at least 0")
        if not 0 <= self.learn <= 1:
            raise ConfigError(f"strategy.learn is {self.learn}, but must lie between 0 (off) and 1")


def point(trial: Trial, goal: Goal, objectives: Sequence[str]) -> tuple[float, ...]:
    """The objectives of a trial, smaller is better; one that failed is worst in all of them."""
    if trial.state != "done" or trial.valid is None or math.isnan(trial.valid):
        return (math.inf,) * len(objectives)
    return tuple(_smaller_is_better(trial, OBJECTIVES[name], goal) for name in objectives)


def _smaller_is_better(trial: Trial, figure: Figure, goal: Goal) -> float:
    value = getattr(trial, figure.name)
    if value is None:
        return math.inf
    return -float(value) if figure.better == "metric" and goal == "max" else float(value)


def ranked(trials: Sequence[Trial], goal: Goal, objectives: Sequence[str] = ("error",)) -> list[Trial]:
    """The trials that succeeded, front by front, within a front by their error, earlier ones first."""
    done = [trial for trial in trials if trial.state == "done"]
    number = fronts([point(trial, goal, objectives) for trial in done])
    keys = [(front, point(trial, goal, ("error",))) for front, trial in zip(number, done, strict=True)]
    return [done[place] for place in sorted(range(len(done)), key=keys.__getitem__)]


def front(trials: Sequence[Trial], goal: Goal, objectives: Sequence[str]) -> list[Trial]:
    """The trials that no other beats in every objective, by their error; of equals the first."""
    order = ranked(trials, goal, objectives)
    points = [point(trial, goal, objectives) for trial in order]
    best: dict[tuple[float, ...], Trial] = {}
    for at, trial, number in zip(points, order, fronts(points), strict=True):
        if number == 0:
            best.setdefault(at, trial)
    return list(best.values())
