"""What a strategy that draws networks asks of a space; the best trials so far may suggest its probabilities."""

from collections.abc import Sequence
from typing import cast

from eclose.config import Config
from eclose.engine.selection import Selection, ranked
from eclose.engine.strategy import Search
from eclose.errors import ConfigError
from eclose.runs import Trial
from eclose.spaces import Genotype, SampledSpace, Space
from eclose.train.metrics import make_metric

BEST = 4  # one trial in so many is learned from


def check_selection(selection: Selection, config: Config, space: Space) -> None:
    """Refuse options out of range, and spaces that cannot be drawn from."""
    selection.check()
    if not isinstance(space, SampledSpace):
        raise ConfigError(
            f"the strategy '{config.strategy.name}' draws networks, which the space '{space.name}' cannot: "
            "choose a space that can, such as einspace"
        )
    if selection.learn and not space.learns:
        raise ConfigError(f"strategy.learn: the space '{space.name}' has nothing to learn; leave it out")


def space_after(trials: Sequence[Trial], search: Search, selection: Selection) -> SampledSpace:
    """The space of a search, as ``strategy.learn`` changes it after ``trials``."""
    space = cast(SampledSpace, search.space)
    if not selection.learn:
        return space
    goal = make_metric(search.config.task.metric).goal
    order = ranked(trials, goal, selection.objectives)
    best = [Genotype(trial.space, trial.genotype) for trial in order[: len(order) // BEST]]
    return space.learned(best, search.task.signature, selection.learn)
