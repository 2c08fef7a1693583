"""How well scores foretold the trainings: Spearman's rank correlation, over the trials of a search."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from eclose.engine.scores import SCORES, Scores
from eclose.engine.selection import point
from eclose.runs import Trial
from eclose.train.metrics import Goal

Ranks = npt.NDArray[np.float64]


def ranks(values: Sequence[float]) -> Ranks:
    """From 1 for the smallest; equal values share the mean of theirs."""
    column = np.asarray(values, dtype=np.float64)[:, None]
    below, equal = (column > column.T).sum(1), (column == column.T).sum(1)
    return below + (equal + 1) / 2


def joint_ranks(scores: Sequence[Scores]) -> dict[str, Ranks]:
    """Ranks by every score, and under ``both`` their mean; a score that could not be computed is the lowest."""
    known = {name: [-math.inf if (value := each.get(name)) is None else value for each in scores] for name in SCORES}
    found = {name: ranks(values) for name, values in known.items()}
    return {**found, "both": np.mean(list(found.values()), axis=0)}


def spearman(first: Sequence[float] | Ranks, second: Sequence[float] | Ranks) -> float | None:
    """Pearson's correlation of the ranks; None where one side is the same everywhere."""
    if len(first) < 2:
        return None
    a, b = (given - given.mean() for given in (ranks(list(first)), ranks(list(second))))
    size = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / size if size else None


def rank_correlation(trials: Sequence[Trial], goal: Goal) -> Mapping[str, float | int | None]:
    """Of each score with the validation metric (1: they order alike), over the trials that trained to an end.

    Those that halving stopped were judged earlier than the others and do not count. Empty where nothing was scored.
    """
    scored = [trial for trial in trials if trial.scores]
    if not scored:
        return {}
    ended = [trial for trial in scored if trial.state == "done" and not trial.reason]
    errors = [point(trial, goal, ("error",))[0] for trial in ended]
    found = joint_ranks([trial.scores for trial in ended])
    return {"trials": len(ended), **{name: spearman(by, [-error for error in errors]) for name, by in found.items()}}
