"""New networks are drawn with probabilities that the best trials so far suggest."""

from collections.abc import Sequence
from typing import cast

from eclose.engine.selection import Selection, ranked
from eclose.engine.strategy import Search
from eclose.runs import Trial
from eclose.spaces import Genotype, LearningSpace, SampledSpace
from eclose.train.metrics import make_metric

BEST = 4  # one trial in so many is learned from


def space_after(trials: Sequence[Trial], search: Search, selection: Selection) -> SampledSpace:
    """The space of a search, as ``strategy.learn`` changes it after ``trials``."""
    if not selection.learn:
        return cast(SampledSpace, search.space)
    goal = make_metric(search.config.task.metric).goal
    order = ranked(trials, goal, selection.objectives)
    best = [Genotype(trial.space, trial.genotype) for trial in order[: len(order) // BEST]]
    return cast(LearningSpace, search.space).learned(best, search.task.signature, selection.learn)
