"""Strategy ``portfolio``: short trainings of all that the spaces offer, longer ones of the best, on one clock.

What comes next follows from the trials so far, in stages: the plain networks; one that tells where features are, if
these miss what a fitted model sees; what other spaces make of the best of them; a longer training of the best of all,
and of the best plain network, whatever it is; the leader once more on samples that are patched, shifted or mirrored, if
it knows its training samples much better than others; second seeds, if time is left, which tell how much of a
difference is chance. Whoever is best on validation samples then has the final training. Long and final trainings go on
with what the one before has learned.
The fitted model, which needs no training, is the result unless a network is better.
Where there is little time fewer networks take part; a single one is trained at length at once. So it is where a
training takes long besides its steps, as on a GPU that meets a network for the first time.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, cast

import torch
from torch import nn

from eclose.config import Config
from eclose.engine.clock import beside, for_trainings, time_for_tests
from eclose.engine.selection import Selection
from eclose.engine.standings import Network, network_named, network_of, standings
from eclose.engine.strategy import Prepared, Role, Search, Strategy, strategies, trainings_after
from eclose.errors import ConfigError
from eclose.runs import STAGES, Trial
from eclose.spaces import ContinuousSpace, Genotype, Space
from eclose.spaces.portfolio import PortfolioSpace
from eclose.train import Surroundings
from eclose.train.augment import usual_changes
from eclose.train.metrics import make_metric

SHORT, LONG, AGAIN = STAGES
_SHORTS = 0.4  # of the time, for all short trainings
_EXPECTED = 6  # networks of other spaces, before it is known which
_CHANGES = (3, 6)  # networks that take part, at least, where samples are changed in one way, and in two
_KNOWN = 0.5  # of the validation error: a network with less on training samples knows these too well
_LAST = 3  # times a long training: the final one, whose network is the result

Stage = tuple[str, list[Genotype]]


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
        self.finalists = finalists
        self.longer = longer
        self.shortest = shortest
        self.seeds = seeds
        self.fitted = fitted
        self.changes = changes
        self.selection = Selection(halving=0)

    def check(self, config: Config, space: Space) -> None:
        """See :class:`Strategy`."""
        if not isinstance(space, PortfolioSpace):
            raise ConfigError(f"the strategy 'portfolio' cannot search the space '{space.name}': leave it out")
        if self.finalists < 1:
            raise ConfigError(f"strategy.finalists is {self.finalists}, but must be at least 1")
        if not 1 <= self.longer < 100:
            raise ConfigError(f"strategy.longer is {self.longer}, but must be at least 1 and below 100")
        if not self.shortest > 0:
            raise ConfigError(f"strategy.shortest is {self.shortest}, but must be above 0")

    def ask(self, search: Search, trials: Sequence[Trial], generator: torch.Generator) -> Genotype | None:
        """The next network of the stage; None while a stage waits for its last trainings, and in the end."""
        limit = search.config.budget.trials
        if limit and sum(trial.role == "search" for trial in trials) >= limit:
            return None
        stage, left = self._under_way(search, trials)
        return replace(left[0], origin=stage) if left else None

    def _under_way(self, search: Search, trials: Sequence[Trial]) -> Stage:
        """The stage that the search is in, with those of its networks that have not begun; after the last one none.

        What is trained already of the networks that join a stage later does not keep the others of them waiting.
        """
        for stage, networks in self._stages(search, trials):
            state = {network_of(trial): trial.state for trial in trials if trial.origin == stage}
            asked = _by_name(networks)
            left = [network for key, network in asked.items() if key not in state]
            if left or any(state[key] == "running" for key in asked):
                return stage, left
        return "", []

    def _stages(self, search: Search, trials: Sequence[Trial]) -> Iterator[Stage]:
        space, room = _space(search), self._room(search, trials)
        plain = self._plain(search, trials)
        if room == 1 and not any(trial.origin == SHORT for trial in trials):
            yield LONG, plain
            return
        yield SHORT, plain
        plain = [*plain, *self._by_regions(search, trials)]
        yield SHORT, plain
        if not (best := self._best(search, trials)):
            return
        short = [*plain, *self._offered(search, trials, best, room - len(plain))]
        yield SHORT, short
        of = _by_name(short)
        chosen = self._finalists(self._order(search, trials, (SHORT,)), len(short), space.plain.name)
        long = [of[network_of(trial)] for trial in chosen]
        yield LONG, long
        leader = self._order(search, [trial for trial in trials if network_of(trial) in of], (LONG,))[:1]
        if leader and self._overfits(search, leader[0]):
            changes = _usual_changes(search)[: self._changes(search, len(short))]
            changed = [of[network_of(leader[0])].on_changed_samples(change) for change in changes]
            of |= _by_name(changed)
            yield LONG, [*long, *changed]
        if self.seeds and self._time_for_more(search, trials):
            chosen = _best_two(self._order(search, trials, (LONG,)), space.plain.name)
            yield AGAIN, [of[network_of(trial)] for trial in chosen]

    def _offered(
        self, search: Search, trials: Sequence[Trial], best: Sequence[Genotype], places: int
    ) -> list[Genotype]:
        """What is made of the best plain networks: behind a linear map, where one is ahead of them; by other spaces.

        There is a place for one behind the map in any case: plain networks need longer to come near it. If the narrow
        network by regions leads, its usual width has the next place. If it has not been tried, it has the last.
        """
        space, signature, hurries = _space(search), search.task.signature, self._hurries(search, trials)
        behind = space.plain.behind_linear(signature, best) if self._linear_leads(search, trials) else []
        wide = [] if hurries else space.plain.wide(signature, best[0])
        others = space.offers(signature, best) if self._time_for_others(search, trials) else []
        last = [] if hurries or self._by_regions(search, trials) else space.plain.by_regions(signature)
        return [*behind, *wide, *others, *last][: max(places, min(1, len(behind)))]

    def _by_regions(self, search: Search, trials: Sequence[Trial]) -> list[Genotype]:
        """A network that tells where features are, if the usual ones miss what a fitted model sees."""
        return _space(search).plain.by_regions(search.task.signature) if self._fitted_is_ahead(search, trials) else []

    def _fitted_is_ahead(self, search: Search, trials: Sequence[Trial]) -> bool:
        """Whether a fitted model is ahead of the short trainings of all the usual plain networks."""
        usual = _by_name(self._plain(search, trials))
        short = [trial for trial in trials if trial.origin == SHORT and network_of(trial) in usual]
        return bool(short) and self._fitted_leads(search, [*(t for t in trials if t.role == "fitted"), *short])

    def _time_for_others(self, search: Search, trials: Sequence[Trial]) -> bool:
        """Whether other spaces have a turn: what they make of a network is slower still, unless the user wants it."""
        space = _space(search)
        return bool(space.named or (space.others and not self._hurries(search, trials)))

    def _hurries(self, search: Search, trials: Sequence[Trial]) -> bool:
        """Whether the first network did not see all samples in its short training: there is time for narrow ones."""
        first = network_named(_space(search).start(search.task.signature))
        known = (trial for trial in trials if trial.origin == SHORT and network_of(trial) == first)
        return any(trial.state == "done" and _epochs(trial) < 1 for trial in known)

    def _linear_leads(self, search: Search, trials: Sequence[Trial]) -> bool:
        """Whether the fitted model is a map of all of the input, and ahead of all short trainings of plain networks."""
        fitted = [trial for trial in trials if trial.role == "fitted"]
        sees_all = bool(fitted) and fitted[0].genotype["options"].get("sees") == "all"
        return sees_all and self._fitted_is_ahead(search, trials)

    def _changes(self, search: Search, networks: int) -> int:
        """In how many ways the samples of the leader may be changed: in few of few networks."""
        if not self.changes:
            return 0
        return min(sum(networks >= least for least in _CHANGES), len(_usual_changes(search)))

    def _changes_to_come(self, search: Search, trials: Sequence[Trial], left: Sequence[Genotype]) -> int:
        """For how many trainings on changed samples the long ones leave time.

        For none if a fitted model leads and networks do not overfit: then they need the time themselves.
        """
        if any(network.augment for network in left):
            return 0
        leader = self._order(search, trials, (LONG,))[:1]
        if leader and self._fitted_leads(search, trials) and not self._overfits(search, leader[0]):
            return 0
        return self._changes(search, sum(trial.origin == SHORT for trial in trials))

    def _overfits(self, search: Search, trial: Trial) -> bool:
        """Whether a network knows its training samples much better than others."""
        metric = make_metric(search.config.task.metric)
        if trial.fit is None or trial.valid is None:
            return False
        return metric.short_of(trial.fit) < _KNOWN * metric.short_of(trial.valid)

    def _best(self, search: Search, trials: Sequence[Trial]) -> list[Genotype]:
        """The plain networks that had a short training, the best first: of these other spaces make theirs.

        One that did not see all samples in its time is left out, as what is made of it is slower still.
        """
        of = _by_name([*self._plain(search, trials), *self._by_regions(search, trials)])
        order = [trial for trial in self._order(search, trials, (SHORT,)) if network_of(trial) in of]
        quick = [trial for trial in order if _epochs(trial) >= 1]
        return [of[network_of(trial)] for trial in quick or order[:1]]

    def _plain(self, search: Search, trials: Sequence[Trial]) -> list[Genotype]:
        """The plain networks that there is time for; one place is left for another space.

        Once another space has its turn they are those that were trained.
        """
        space, room, signature = _space(search), self._room(search, trials), search.task.signature
        plain, short = space.offers(signature, []), [trial for trial in trials if trial.origin == SHORT]
        if self._hurries(search, trials):
            known = set(map(network_of, short))
            wide = [network for network in plain if network_named(network) in known]
            plain = list(_by_name([*wide, *space.plain.narrow(signature)]).values())
        names = _by_name(plain)
        begun = [network_of(trial) in names for trial in short]
        most = sum(begun)
        if all(begun) and not any(trial.origin == LONG for trial in trials):
            most = max(most, room - 1 if room > 2 and self._time_for_others(search, trials) else room)
        return plain[:most]

    def _room(self, search: Search, trials: Sequence[Trial]) -> int:
        """How many short trainings there is time for, so that each is worth something; at least those that began."""
        seconds = 60 * search.config.budget.minutes * search.config.run.workers
        known = [trial for trial in trials if trial.origin == SHORT]
        room = int(_SHORTS * seconds / (self.shortest + beside(known)))
        if any(trial.origin == LONG for trial in trials):
            room = 0
        return max(1, room, len(known))

    def notices(self, search: Search) -> list[str]:
        """Which of the spaces that were named have no place in so short a run."""
        space, room = _space(search), self._room(search, [])
        if not space.named:
            return []
        plain = self._plain(search, [])
        offered = space.offers(search.task.signature, plain)
        places = 0 if room == 1 else max(0, min(room, search.config.budget.trials or room) - len(plain))
        left = {network.space for network in offered} - {network.space for network in offered[:places]}
        if not left:
            return []
        named = ", ".join(name for name in space.named if name in left)
        limit = "--trials" if search.config.budget.trials and room > 1 else "--minutes"
        return [f"of space.spaces, {named} will not be tried: the run is too short for all; give it more {limit}"]

    def _finalists(self, order: Sequence[Trial], networks: int, plain: str) -> list[Trial]:
        """The best plain network, and the best of all; half of few networks."""
        best = list(order[: self._number(networks)])
        first = next((trial for trial in order if trial.space == plain), None)
        return [*([first] if first else []), *(trial for trial in best if trial is not first)]

    def _number(self, networks: int) -> int:
        return min(self.finalists, max(1, networks // 2))

    def _order(
        self, search: Search, trials: Sequence[Trial], stages: tuple[str, ...], fitted: Trial | None = None
    ) -> list[Trial]:
        metric, plain = make_metric(search.config.task.metric), _space(search).plain.name
        one = 1 / len(search.task.val) if metric.name in ("accuracy", "error") else 0.0  # answer more is no lead
        return standings([trial for trial in trials if trial.origin in stages], metric.goal, plain, one, fitted)

    def standing(self, search: Search, trials: Sequence[Trial]) -> list[Trial]:
        """Every network by its longest trainings; before them the fitted model, if no network is ahead of it."""
        fitted = next((trial for trial in trials if trial.role == "fitted"), None)
        return self._order(search, trials, STAGES, fitted)

    def _fitted_leads(self, search: Search, trials: Sequence[Trial]) -> bool:
        return any(trial.role == "fitted" for trial in self.standing(search, trials)[:1])

    def _time_for_more(self, search: Search, trials: Sequence[Trial]) -> bool:
        """Whether two more long trainings leave the final one its time."""
        known = [trial for trial in trials if trial.origin != AGAIN]
        seconds = [trial.seconds or 0.0 for trial in known if trial.origin == LONG]
        gone = max((trial.elapsed or 0.0 for trial in known), default=0.0)
        tests = time_for_tests(self.standing(search, known), search.task)
        left = for_trainings(60 * search.config.budget.minutes) - gone - tests
        return bool(seconds) and left > (2 + _last(search)) * max(seconds)

    def share(self, search: Search, trials: Sequence[Trial]) -> float:
        """See :class:`Strategy`. A long training counts as several short ones, and so does each that follows.

        If the fitted model leads, less is kept for a final training: what networks need is time to overtake it.
        """
        stage, left = self._under_way(search, trials)
        beside_final, last = trainings_after(search.config) - search.config.final.networks, _last(search)
        begun = sum(trial.origin == SHORT for trial in trials)
        if stage != SHORT:
            changes = self._changes_to_come(search, trials, left) if stage == LONG else 0
            if self._fitted_leads(search, [trial for trial in trials if trial.origin not in (LONG, AGAIN)]):
                last = 0 if len(left) + changes == 1 and self._fitted_leads(search, trials) else min(1, last)
            return 1 / (max(1, len(left)) + changes + beside_final + last)
        follow = max(1, beside_final + last)
        plain = [*self._plain(search, trials), *self._by_regions(search, trials)]
        others = self._time_for_others(search, trials)
        expected = min(self._room(search, trials), len(plain) + _EXPECTED * bool(others))
        shorts = max(1, expected - begun if begun < len(plain) else len(left))
        longs = min(expected, self._number(expected) + bool(others))
        longs += self._changes(search, expected)
        part = 1 / (shorts + self.longer * (longs + follow))
        # All trainings that are still to come take time besides their steps, of which this one bears its part.
        gone = max((trial.elapsed or 0.0 for trial in trials), default=0.0)
        seconds = max(1.0, for_trainings(60 * search.config.budget.minutes) - gone)
        trainings = shorts + longs + max(1, trainings_after(search.config))
        return min(1.0, part + (1 - part * trainings) * beside(trials) / seconds)

    def asks_fit(self, search: Search, trial: Trial) -> bool:
        """Of long trainings, if there is a way to change samples."""
        return self.changes and trial.origin == LONG and bool(_usual_changes(search))

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
        return self._order(search, trials, STAGES)

    def summary(self, search: Search, trials: Sequence[Trial]) -> dict[str, Any]:
        """How far the best is ahead of its rival, and how far trainings with other seeds are apart.

        The rival of a found network is the best plain one, that of a plain network the best found one, if both were
        trained for equally long; that of the fitted model is the best of all. A plain network may be behind by the
        one answer that is no lead.
        """
        trained = [trial for trial in trials if trial.role != "fitted"]
        told: dict[str, Any] = {"networks": len({network_of(trial) for trial in trained})}
        order, name = self.standing(search, trials), _space(search).plain.name
        fitted, won, short = order[0].role == "fitted", order[0].space == name, order[0].origin == SHORT
        rivals = [trial for trial in order if (trial.space == name) != won and (trial.origin == SHORT) == short]
        if rivals := order[1:] if fitted else rivals:
            up = 1 if make_metric(search.config.task.metric).goal == "max" else -1
            mine, theirs = (trial.valid or 0.0 for trial in (order[0], rivals[0]))
            ahead = 0.0 if math.isclose(mine, theirs) else up * (mine - theirs)  # means of seeds are rounded
            told |= {
                "ahead": ahead,
                "rival": rivals[0].name,
                **({"fitted": order[0].name} if fitted else {"plain": won}),
            }
        if missed := self._missed(search, trained):
            told["missed"] = missed
        long = {network_of(trial): trial.valid for trial in trained if trial.origin == LONG}
        pairs = [(trial.valid, long.get(network_of(trial))) for trial in trained if trial.origin == AGAIN]
        apart = [abs(one - other) for one, other in pairs if one is not None and other is not None]
        return {**told, **({"seeds_apart": max(apart)} if apart else {})}

    def _missed(self, search: Search, trials: Sequence[Trial]) -> list[str]:
        """Spaces that were named and have networks for the data, of which none was trained."""
        space, known = _space(search), self._best(search, trials) or self._plain(search, [])
        if not space.named:
            return []
        offering = {network.space for network in space.offers(search.task.signature, known)}
        return [name for name in space.named if name in offering - {trial.space for trial in trials}]

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


def _space(search: Search) -> PortfolioSpace:
    return cast(PortfolioSpace, search.space)


def _by_name(networks: Sequence[Genotype]) -> dict[Network, Genotype]:
    """As :func:`network_of` names the trial of one."""
    return {network_named(network): network for network in networks}


def _usual_changes(search: Search) -> list[dict[str, dict[str, Any]]]:
    """None where the user has chosen some, be it for the final training alone."""
    config = search.config
    if config.augment.names or "augment" in config.final.options:
        return []
    return usual_changes(search.task.signature, pointwise=config.task.standardise == "pointwise")


def _epochs(trial: Trial) -> float:
    """How often a training saw all samples; the last time perhaps only some of them."""
    last = trial.history[-1] if trial.history else {}
    return (trial.epochs or 0) - 1 + float(last.get("seen", 1.0))


def _last(search: Search) -> int:
    """How many long trainings the final stage counts for; without test samples there is none."""
    return _LAST * search.config.final.networks if search.task.test is not None else 0


def _own(search: Search, genotype: Genotype) -> tuple[Search, Strategy]:
    """A search of the space that a network comes from, and the strategy of that space."""
    space = _space(search).space_of(genotype)
    return replace(search, space=space), _strategy(type(space))


@cache
def _strategy(space: type[Space]) -> Strategy:
    strategy: Strategy = strategies[space.strategy].make(**space.strategy_options)
    return strategy


def _best_two(order: Sequence[Trial], plain: str) -> list[Trial]:
    """The best plain network and the best of all, or whoever comes after it: those that the run decides between."""
    first = next((trial for trial in order if trial.space == plain), None)
    others = [trial for trial in order if trial is not first]
    return [*([first] if first else []), *others[: 1 if first else 2]]
