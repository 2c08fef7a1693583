"""Strategy ``portfolio``: short trainings of all that the spaces offer, longer ones of the best, on one clock.

What comes next follows from the trials so far, in four stages: the plain networks; what other spaces make of the best
of them; a longer training of the best of all, and of the best plain network, whatever it is; second seeds, if time is
left, which tell how much of a difference is chance. Whoever is best on validation samples then has the final training.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, cast

import torch
from torch import nn

from eclose.config import Config
from eclose.engine.selection import Selection, ranked
from eclose.engine.strategy import Prepared, Role, Search, Strategy, strategies, trainings_after
from eclose.errors import ConfigError
from eclose.runs import STAGES, Trial
from eclose.spaces import ContinuousSpace, Genotype, Space
from eclose.spaces.portfolio import PortfolioSpace
from eclose.train import Surroundings
from eclose.train.metrics import make_metric

SHORT, LONG, AGAIN = STAGES
_EXPECTED = 4  # networks of other spaces, before it is known which
_SHORTS, _LEAST = 0.4, 5.0  # of the time, for all short trainings; seconds of each at least


@strategies.register("portfolio")
class Portfolio(Strategy):
    """Short trainings of everything, longer ones of the best; the best on validation wins."""

    minutes = 10.0
    selection: Selection

    def __init__(self, *, finalists: int = 3, longer: float = 3.0, seeds: bool = True) -> None:
        self.finalists = finalists
        self.longer = longer
        self.seeds = seeds
        self.selection = Selection(halving=0)

    def check(self, config: Config, space: Space) -> None:
        """See :class:`Strategy`."""
        if not isinstance(space, PortfolioSpace):
            raise ConfigError(f"the strategy 'portfolio' cannot search the space '{space.name}': leave it out")
        if self.finalists < 1:
            raise ConfigError(f"strategy.finalists is {self.finalists}, but must be at least 1")
        if not 1 <= self.longer < 100:
            raise ConfigError(f"strategy.longer is {self.longer}, but must be at least 1 and below 100")

    def ask(self, search: Search, trials: Sequence[Trial], generator: torch.Generator) -> Genotype | None:
        """The next network of the stage; None while a stage waits for its last trainings, and in the end."""
        limit = search.config.budget.trials
        if limit and len(trials) >= limit:
            return None
        for stage, networks in self._stages(search, trials):
            known = [trial for trial in trials if trial.origin == stage]
            asked = [_key(trial.space, trial.genotype) for trial in known]
            for network in networks:
                if _key(network.space, network.choices) not in asked:
                    return replace(network, origin=stage)
            if any(trial.state == "running" for trial in known):
                return None
        return None

    def _stages(self, search: Search, trials: Sequence[Trial]) -> Iterator[tuple[str, list[Genotype]]]:
        space, signature = cast(PortfolioSpace, search.space), search.task.signature
        plain = space.offers(signature, [])
        yield SHORT, plain
        best = [trial for trial in self._order(search, trials, SHORT) if trial.space == space.plain.name]
        if not best:
            return
        offered = space.offers(signature, [_genotype(trial) for trial in best])
        yield SHORT, [*plain, *offered[: self._room(search, len(plain))]]
        yield LONG, self._finalists(self._order(search, trials, SHORT), space)
        if self.seeds and self._time_for_more(search, trials):
            order = self._order(search, trials, LONG)
            yield AGAIN, self._finalists(order[:1] + [t for t in order if t.space == space.plain.name], space, 1)

    def _room(self, search: Search, plain: int) -> int:
        """How many networks of other spaces there is time for, so that a short training is worth something."""
        return max(1, int(_SHORTS * 60 * search.config.budget.minutes / _LEAST) - plain)

    def _finalists(self, order: Sequence[Trial], space: PortfolioSpace, number: int = 0) -> list[Genotype]:
        """The best trials and the best plain network."""
        best = list(order[: number or self.finalists])
        plain = next((trial for trial in order if trial.space == space.plain.name), None)
        if plain is not None and plain not in best:
            best.append(plain)
        return [_genotype(trial) for trial in best]

    def _order(self, search: Search, trials: Sequence[Trial], stage: str) -> list[Trial]:
        goal = make_metric(search.config.task.metric).goal
        return ranked([trial for trial in trials if trial.origin == stage], goal)

    def _time_for_more(self, search: Search, trials: Sequence[Trial]) -> bool:
        """Whether two more long trainings leave as much for the final one."""
        seconds = [trial.seconds or 0.0 for trial in trials if trial.origin == LONG]
        gone = max((trial.elapsed or 0.0 for trial in trials if trial.origin != AGAIN), default=0.0)
        left = 60 * search.config.budget.minutes - gone
        return bool(seconds) and left > 4 * max(seconds)

    def share(self, search: Search, trials: Sequence[Trial]) -> float:
        """See :class:`Strategy`. A long training counts as several short ones, and so does each that follows."""
        space, plain = cast(PortfolioSpace, search.space), search.task.signature
        after = self.longer * max(1, trainings_after(search.config))
        done = {stage: sum(trial.origin == stage for trial in trials) for stage in (SHORT, LONG, AGAIN)}
        networks = len(space.offers(plain, []))
        if done[LONG] == 0:
            expected = min(_EXPECTED * bool(space.others), self._room(search, networks))
            shorts = max(1, networks + expected - done[SHORT])
            if done[SHORT] < networks or self._offered(search, trials):
                return 1 / (shorts + self.longer * (self.finalists + 1) + after)
        if not done[AGAIN]:
            left = max(1, self.finalists + 1 - done[LONG])
            return self.longer / (self.longer * left + after)
        return 1 / 3

    def _offered(self, search: Search, trials: Sequence[Trial]) -> bool:
        """Whether a short training comes next."""
        generator = torch.Generator()
        following = self.ask(search, trials, generator)
        return following is not None and following.origin == SHORT

    def shown(self, search: Search, trials: Sequence[Trial]) -> list[Trial]:
        """The best training of every network."""
        goal = make_metric(search.config.task.metric).goal
        best: dict[str, Trial] = {}
        for trial in ranked(trials, goal):
            best.setdefault(_key(trial.space, trial.genotype), trial)
        return list(best.values())

    def summary(self, search: Search, trials: Sequence[Trial]) -> dict[str, Any]:
        """How far the best is ahead of the best plain network, and how far trainings with other seeds are apart."""
        told: dict[str, Any] = {"networks": len({_key(trial.space, trial.genotype) for trial in trials})}
        order = ranked(trials, make_metric(search.config.task.metric).goal)
        plain = next((trial for trial in order if trial.space == cast(PortfolioSpace, search.space).plain.name), None)
        if plain is not None and order[0].space != plain.space:
            told["ahead"] = abs((order[0].valid or 0.0) - (plain.valid or 0.0))
        long = {_key(trial.space, trial.genotype): trial.valid for trial in order if trial.origin == LONG}
        again = [trial for trial in order if trial.origin == AGAIN]
        apart = [abs((t.valid or 0.0) - (long.get(_key(t.space, t.genotype)) or 0.0)) for t in again]
        return {**told, **({"seeds_apart": max(apart)} if apart else {})}

    def prepare(self, search: Search, genotype: Genotype, around: Surroundings, role: Role) -> Prepared:
        """As the strategy of the network's own space does it.

        What a supernet has found is trained on as a supernet: its operations go on moving with the samples that the
        search has kept back.
        """
        inner, strategy = _own(search, genotype)
        anew = isinstance(inner.space, ContinuousSpace) and inner.space.trained_anew
        return strategy.prepare(inner, genotype, around, role if anew else "search")

    def found(self, search: Search, genotype: Genotype, model: nn.Module) -> tuple[Genotype, nn.Module | None]:
        """See :class:`Strategy`."""
        inner, strategy = _own(search, genotype)
        return strategy.found(inner, genotype, model)


def _own(search: Search, genotype: Genotype) -> tuple[Search, Strategy]:
    """A search of the space that a network comes from, and the strategy of that space."""
    space = cast(PortfolioSpace, search.space).space_of(genotype)
    return replace(search, space=space), _strategy(type(space))


@cache
def _strategy(space: type[Space]) -> Strategy:
    strategy: Strategy = strategies[space.strategy].make(**space.strategy_options)
    return strategy


def _genotype(trial: Trial) -> Genotype:
    """What was asked for, without what its training found."""
    return Genotype(trial.space, trial.genotype, description=trial.description)


def _key(space: str, choices: dict[str, object]) -> str:
    return json.dumps([space, choices], sort_keys=True)
