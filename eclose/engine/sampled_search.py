"""What strategies share that draw networks: none twice, a population with tournaments, what the best have in common."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import torch

from eclose.config import Config
from eclose.engine.selection import Selection, ranked
from eclose.engine.strategy import Search
from eclose.errors import ConfigError
from eclose.runs import Trial
from eclose.spaces import Genotype, SampledSpace, Space
from eclose.train.metrics import make_metric

_TRIES = 100
_BEST = 4  # one trial in so many is learned from
_SEARCHED = 0.7  # of the time of a run; the rest is for final trainings and baselines
_NETWORKS = 8  # that are trained at least, however large they are

Key = tuple[float, ...]


def new_among(trials: Sequence[Trial], make: Callable[[], Genotype | None], origin: str = "") -> Genotype | None:
    """The first that ``make`` gives and no trial has had; None after many tries."""
    known = {trial.hash for trial in trials}
    for _ in range(_TRIES):
        genotype = make()
        if genotype is not None and genotype.hash not in known:
            return replace(genotype, origin=origin or genotype.origin)
    return None


def living(trials: Sequence[Trial], size: int, first: int) -> list[Trial]:
    """The last ``size`` trials that have ended, after a first generation of that many.

    The first generation repeats the first ``first`` trials in turn: known networks are trained once, and their copies
    leave the queue one by one. Trials under way are not waited for.
    """
    generation = [trials[place % first] for place in range(max(size, first))]
    queue = [trial for trial in [*generation, *trials[first:]] if trial.state != "running"]
    return queue[-size:]


def tournament(keys: Sequence[Key], size: int, generator: torch.Generator) -> int:
    """The place of the smallest key among ``size`` drawn without putting back; the earliest drawn of equals."""
    drawn = torch.randperm(len(keys), generator=generator)[:size].tolist()
    return int(min(drawn, key=lambda place: keys[place]))


def check_selection(selection: Selection, config: Config, space: Space) -> None:
    """Refuse options out of range, and spaces that cannot be drawn from."""
    selection.check()
    if not isinstance(space, SampledSpace):
        raise ConfigError(
            f"the strategy '{config.strategy.name}' draws networks, which the space '{space.name}' cannot: "
            "choose a space that can, such as --space einspace"
        )
    if selection.learn and not space.learns:
        raise ConfigError(f"strategy.learn: the space '{space.name}' has nothing to learn; leave it out")


def share_of_search(search: Search, trials: Sequence[Trial]) -> float:
    """Networks are drawn for most of the time of a run, of which each may take a part only."""
    total = 60 * search.config.budget.minutes
    gone = max((trial.elapsed or 0.0 for trial in trials), default=0.0) / total
    return max(0.0, min(_SEARCHED / _NETWORKS, _SEARCHED - gone) / (1 - gone)) if gone < 1 else 0.0


def space_after(trials: Sequence[Trial], search: Search, selection: Selection) -> SampledSpace:
    """The space of a search, as ``strategy.learn`` changes it after ``trials``."""
    space = cast(SampledSpace, search.space)
    if not selection.learn:
        return space
    goal = make_metric(search.config.task.metric).goal
    order = ranked(trials, goal, selection.objectives)
    best = [Genotype(trial.space, trial.genotype) for trial in order[: len(order) // _BEST]]
    return space.learned(best, search.task.signature, selection.learn)
