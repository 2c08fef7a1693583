"""What the driver asks a portfolio: what comes next, for how long, how it is prepared, and how it went."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, cast

import torch
from torch import nn

from eclose.config import Config
from eclose.engine.portfolio.race import AGAIN, LONG, SHORT, Race, StageOptions
from eclose.engine.portfolio.shares import share
from eclose.engine.portfolio.stages import best_plain, plain_networks, under_way
from eclose.engine.selection import Selection
from eclose.engine.standings import network_named, network_of
from eclose.engine.strategy import Prepared, Role, Search, Strategy, strategies
from eclose.errors import ConfigError
from eclose.runs import STAGES, Trial
from eclose.spaces import ContinuousSpace, Genotype, Space
from eclose.spaces.portfolio import PortfolioSpace
from eclose.train import Surroundings


@strategies.register("portfolio")
class Portfolio(Strategy):
    """Short trainings of everything, longer ones of the best; the best on validation wins."""

    minutes = 10.0
    selection: Selection

    def __init__(
        self,
        *,
        finalists: int = 3,
        longer: float = 3.0,
        shortest: float = 4.0,
        seeds: bool = True,
        fitted: bool = True,
        changes: bool = True,
    ) -> None:
        """``shortest``: seconds below which a short training tells nothing; fewer networks take part instead.

        ``fitted``: whether a model that is fitted in closed form may win. ``changes``: whether a network that overfits
        is trained on changed samples, too.
        """
        self.options = StageOptions(finalists, longer, shortest, seeds, changes)
        self.fitted = fitted
        self.selection = Selection(halving=0)

    def check(self, config: Config, space: Space) -> None:
        """See :class:`Strategy`."""
        if not isinstance(space, PortfolioSpace):
            raise ConfigError(f"the strategy 'portfolio' cannot search the space '{space.name}': leave it out")
        if self.options.finalists < 1:
            raise ConfigError(f"strategy.finalists is {self.options.finalists}, but must be at least 1")
        if not 1 <= self.options.longer < 100:
            raise ConfigError(f"strategy.longer is {self.options.longer}, but must be at least 1 and below 100")
        if not self.options.shortest > 0:
            raise ConfigError(f"strategy.shortest is {self.options.shortest}, but must be above 0")

    def ask(self, search: Search, trials: Sequence[Trial], generator: torch.Generator) -> Genotype | None:
        """The next network of the stage; None while a stage waits for its last trainings, and in the end."""
        limit = search.config.budget.trials
        if limit and sum(trial.role == "search" for trial in trials) >= limit:
            return None
        stage, left = under_way(self._race(search, trials))
        return replace(left[0], origin=stage) if left else None

    def share(self, search: Search, trials: Sequence[Trial]) -> float:
        """See :class:`Strategy`."""
        return share(self._race(search, trials))

    def _race(self, search: Search, trials: Sequence[Trial]) -> Race:
        return Race(search, trials, self.options)

    def notices(self, search: Search) -> list[str]:
        """Which of the spaces that were named have no place in so short a run."""
        race, limit = self._race(search, []), search.config.budget.trials
        space, room = race.space, race.room
        if not space.named:
            return []
        plain = plain_networks(race)
        offered = space.offers(race.signature, plain)
        places = 0 if room == 1 else max(0, min(room, limit or room) - len(plain))
        left = {network.space for network in offered} - {network.space for network in offered[:places]}
        if not left:
            return []
        named = ", ".join(name for name in space.named if name in left)
        more = "--trials" if limit and room > 1 else "--minutes"
        return [f"of space.spaces, {named} will not be tried: the run is too short for all; give it more {more}"]

    def standing(self, search: Search, trials: Sequence[Trial]) -> list[Trial]:
        """Every network by its longest trainings; before them the fitted model, if no network is ahead of it."""
        return self._race(search, trials).standing

    def asks_fit(self, search: Search, trial: Trial) -> bool:
        """Of long trainings, if there is a way to change samples."""
        return trial.origin == LONG and bool(self._race(search, []).all_changes)

    def goes_on(self, search: Search, trials: Sequence[Trial], genotype: Genotype) -> Trial | None:
        """A long training begins with what the short one of the same network has learned."""
        if genotype.origin != LONG or genotype.augment:
            return None
        network = network_named(genotype)
        ended = (t for t in trials if t.origin == SHORT and network_of(t) == network and t.state == "done")
        return next((trial for trial in ended if not trial.collapsed), None)

    def goes_on_in_the_end(self, search: Search, chosen: Trial) -> bool:
        """Unless it had learned nothing."""
        return not chosen.collapsed

    def shown(self, search: Search, trials: Sequence[Trial]) -> list[Trial]:
        """All networks that were trained."""
        return self._race(search, trials).order(*STAGES)

    def summary(self, search: Search, trials: Sequence[Trial]) -> dict[str, Any]:
        """How far the best is ahead of its rival, and how far trainings with other seeds are apart.

        The rival of a found network is the best plain one, that of a plain network the best found one, if both were
        trained for equally long; that of the fitted model is the best of all. A plain network may be behind by the
        one answer that is no lead.
        """
        race = self._race(search, trials)
        trained = race.among([trial for trial in trials if trial.role != "fitted"])
        told: dict[str, Any] = {"networks": len({network_of(trial) for trial in trained.trials})}
        order, name = self.standing(search, trials), race.space.plain.name
        fitted, won, short = order[0].role == "fitted", order[0].space == name, order[0].origin == SHORT
        rivals = [trial for trial in order if (trial.space == name) != won and (trial.origin == SHORT) == short]
        if rivals := order[1:] if fitted else rivals:
            up = 1 if race.metric.goal == "max" else -1
            mine, theirs = (trial.valid or 0.0 for trial in (order[0], rivals[0]))
            ahead = 0.0 if math.isclose(mine, theirs) else up * (mine - theirs)  # means of seeds are rounded
            told |= {
                "ahead": ahead,
                "rival": rivals[0].name,
                **({"fitted": order[0].name} if fitted else {"plain": won}),
            }
        if missed := self._missed(trained):
            told["missed"] = missed
        long = {network_of(trial): trial.valid for trial in trained.of(LONG)}
        pairs = [(trial.valid, long.get(network_of(trial))) for trial in trained.of(AGAIN)]
        apart = [abs(one - other) for one, other in pairs if one is not None and other is not None]
        return {**told, **({"seeds_apart": max(apart)} if apart else {})}

    def _missed(self, race: Race) -> list[str]:
        """Spaces that were named and have networks for the data, of which none was trained."""
        space, known = race.space, best_plain(race) or plain_networks(race.among([]))
        if not space.named:
            return []
        offering = {network.space for network in space.offers(race.signature, known)}
        return [name for name in space.named if name in offering - {trial.space for trial in race.trials}]

    def prepare(self, search: Search, genotype: Genotype, around: Surroundings, role: Role) -> Prepared:
        """As the strategy of the network's own space does it.

        What a supernet has found is trained on as a supernet: its operations go on moving with the samples that the
        search has kept back. A space whose supernet leaves no weights offers networks, which are trained as they are.
        """
        inner, strategy = _own(search, genotype)
        anew = isinstance(inner.space, ContinuousSpace) and inner.space.trained_anew
        return strategy.prepare(inner, genotype, around, "final" if anew else "search")

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
