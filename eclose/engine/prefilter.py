"""Of several networks that a strategy asks for, only the most promising one is trained; how well scores foretold it.

Scoring takes place where the search is driven, which has the data and a device: it is one pass forwards and back a
network, while workers go on with their trials.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eclose.engine.scores import SCORES, Scores, score
from eclose.engine.selection import point
from eclose.engine.strategy import Search, Strategy
from eclose.errors import is_fault_of_network
from eclose.events import Events
from eclose.runs import Trial
from eclose.spaces import Genotype, assemble
from eclose.train import Batches, Objective, generator_for
from eclose.train.data import training_order
from eclose.train.metrics import Goal


@dataclass(frozen=True)
class Prefilter:
    """Asks ``candidates`` times and keeps the network with the best mean rank over all scores."""

    search: Search
    strategy: Strategy
    candidates: int  # 0: no filter
    device: torch.device
    events: Events

    def ask(self, trials: Sequence[Trial], generator: torch.Generator, seed: int) -> tuple[Genotype, Scores] | None:
        """What to try after ``trials``, with its scores; the first candidate is what would be tried without them.

        ``seed`` is that of the training, so that the weights scored are those it begins with.
        """
        asked = [self.strategy.ask(self.search, trials, generator) for _ in range(self.candidates)]
        genotypes = list(dict.fromkeys(genotype for genotype in asked if genotype is not None))
        if not genotypes:
            return None
        begun = time.perf_counter()
        scores = [self._score(genotype, seed) for genotype in genotypes]
        best = int(joint_ranks(scores)["both"].argmax())  # of equals the first
        torch.cuda.empty_cache()  # workers may share the GPU
        self.events.emit("scored", candidates=scores, chosen=best, seconds=time.perf_counter() - begun)
        return genotypes[best], scores[best]

    def _score(self, genotype: Genotype, seed: int) -> Scores:
        task, config = self.search.task, self.search.config
        objective, (x, y) = Objective.of(task, config.loss, self.device), self._batch
        torch.manual_seed(seed)
        try:
            network = self.search.space_of(genotype).build(genotype, task.signature)
            model = assemble(network, task.signature, task.scale).to(self.device)
            return score(model, objective, x, y)
        except Exception as error:
            if not is_fault_of_network(error):
                raise
            return dict.fromkeys(SCORES)  # its training tells what is wrong, should it be chosen

    @cached_property
    def _batch(self) -> tuple[Tensor, Tensor]:
        """One batch, the same for all networks of a run."""
        task, config = self.search.task, self.search.config
        rows = training_order(len(task.train), config.train.batch, generator_for(config.run.seed, "score"))[0]
        samples = Batches(task.train.select(rows), task.signature, self.device)
        return next(iter(samples.batches([torch.arange(len(rows))])))


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
