"""Strategy ``evolution``: regularised evolution (Real et al. 2019; einspace paper, 4.1), from scratch or from seeds."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from eclose.config import Config
from eclose.engine.pareto import preference
from eclose.engine.sampled_search import check_selection, living, new_among, share_of_search, space_after, tournament
from eclose.engine.selection import Selection, point
from eclose.engine.strategy import Search, Strategy, strategies
from eclose.errors import ConfigError
from eclose.registry import nearest
from eclose.runs import Trial
from eclose.spaces import Genotype, SampledSpace, Space
from eclose.train.metrics import make_metric

_STARTS = ("scratch", "seed", "mix")
POPULATION, TOURNAMENT = 100, 10  # of the paper
FEW, OF_FEW = 8, 4  # the same, at least, where known networks are the first parents


@strategies.register("evolution")
class Evolution(Strategy):
    """Mutate the winners of tournaments; the oldest leave the population. Starts from seeds or from scratch."""

    trials = 100
    selection: Selection

    def __init__(
        self,
        *,
        population: int = 0,
        tournament: int = 0,
        crossover: float = 0.0,
        start: str = "",
        objectives: tuple[str, ...] = ("error",),
        halving: int = 3,
        prefilter: int = 0,
        learn: float = 0.0,
        paper: bool = False,
    ) -> None:
        self.population = POPULATION if paper else population
        self.tournament = TOURNAMENT if paper else tournament
        self.crossover = 0.0 if paper else crossover
        self.start = start or ("scratch" if paper else "mix")
        if paper:
            halving, prefilter, learn = 0, 0, 0.0
        self.selection = Selection(objectives, halving, prefilter, learn)

    def check(self, config: Config, space: Space) -> None:
        """See :class:`Strategy`."""
        check_selection(self.selection, config, space)
        if self.start not in _STARTS:
            raise ConfigError(f"strategy.start is '{self.start}'; {nearest(self.start, _STARTS)}")
        if not 0 <= self.crossover <= 1:
            raise ConfigError(f"strategy.crossover is {self.crossover}, but must be a probability")
        for name in ("population", "tournament"):
            if getattr(self, name) < 0:
                raise ConfigError(f"strategy.{name} is {getattr(self, name)}, but must be at least 0 (0: by --trials)")

    def share(self, search: Search, trials: Sequence[Trial]) -> float:
        """See :class:`Strategy`."""
        return share_of_search(search, trials)

    def ask(self, search: Search, trials: Sequence[Trial], generator: torch.Generator) -> Genotype | None:
        """A network of the first generation, then children; parents are chosen among the trials that have ended."""
        if len(trials) >= search.config.budget.trials:
            return None
        space, signature = space_after(trials, search, self.selection), search.task.signature
        population, _ = self.sizes(search.config.budget.trials)
        seeds = self._seeds(space, search)
        if len(trials) < len(seeds):
            return replace(seeds[len(trials)], origin="seed")
        first = len(seeds) or population
        alive = living(trials, population, first) if len(trials) >= first else []
        child = self._child(space, search, trials, alive, generator) if alive else None
        return child or new_among(trials, lambda: space.sample(signature, generator), "drawn")

    def effective(self, config: Config) -> dict[str, Any]:
        """Options that follow from others, as they are used."""
        population, tournament = self.sizes(config.budget.trials)
        return {
            "start": self.start,
            "population": population,
            "tournament": tournament,
            "crossover": self.crossover,
            "halving": self.selection.halving,
            "prefilter": self.selection.prefilter,
            "learn": self.selection.learn,
        }

    def sizes(self, trials: int) -> tuple[int, int]:
        """Population and tournament: as set, or the paper's but at most a quarter of the trials and a third of that.

        A population of known networks has room for all of them, so that none leaves before it could have a child.
        """
        few, of_few = (2, 2) if self.start == "scratch" else (FEW, OF_FEW)
        population = self.population or max(few, min(POPULATION, trials // 4))
        return population, self.tournament or max(of_few, min(TOURNAMENT, population // 3))

    def _seeds(self, space: SampledSpace, search: Search) -> list[Genotype]:
        if self.start == "scratch":
            return []
        seeds = space.seeds(search.task.signature)
        return seeds if self.start == "mix" else seeds[:1]

    def _child(
        self,
        space: SampledSpace,
        search: Search,
        trials: Sequence[Trial],
        alive: Sequence[Trial],
        generator: torch.Generator,
    ) -> Genotype | None:
        """A new network from the winner of a tournament, or from two; None after many tries."""
        signature = search.task.signature
        _, size = self.sizes(search.config.budget.trials)
        goal = make_metric(search.config.task.metric).goal
        keys = preference([point(trial, goal, self.selection.objectives) for trial in alive])

        def vary() -> Genotype | None:
            crossed = float(torch.rand((), generator=generator)) < self.crossover
            parents = [alive[tournament(keys, size, generator)] for _ in range(2 if crossed else 1)]
            if any(parent.state != "done" for parent in parents):
                return None  # all in the tournament have failed
            genotypes = [Genotype(parent.space, parent.genotype, origin=parent.origin) for parent in parents]
            if crossed:
                child = space.crossover(genotypes[0], genotypes[1], signature, generator)
            else:
                child = space.mutate(genotypes[0], signature, generator)
            origin, numbers = "crossed" if crossed else "mutated", tuple(parent.number for parent in parents)
            return None if child is None else replace(child, origin=origin, parents=numbers)

        return new_among(trials, vary)
