"""What the trials of a portfolio tell: which networks lead, and what there is time for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

from eclose.engine.clock import beside, for_trainings, time_for_tests
from eclose.engine.standings import network_named, network_of, standings
from eclose.engine.strategy import Search
from eclose.runs import STAGES, Trial
from eclose.signature import Signature
from eclose.spaces.portfolio import PortfolioSpace
from eclose.train.augment import usual_changes
from eclose.train.metrics import Metric, make_metric

SHORT, LONG, AGAIN = STAGES
_SHORTS = 0.4  # of the time, for all short trainings
_CHANGES = (3, 6)  # networks that take part, at least, where samples are changed in one way, and in two
_KNOWN = 0.5  # of the validation error: a network with less on training samples knows these too well
_LAST = 3  # times a long training: the final one, whose network is the result


@dataclass(frozen=True)
class StageOptions:
    """What the user may change of the stages, and of their time."""

    finalists: int
    longer: float
    shortest: float
    seeds: bool
    changes: bool


@dataclass(frozen=True)
class Race:
    """A search and its trials so far."""

    search: Search
    trials: Sequence[Trial]
    options: StageOptions

    @property
    def space(self) -> PortfolioSpace:
        """Plain networks, and the other spaces; ``check`` has looked."""
        return cast(PortfolioSpace, self.search.space)

    @property
    def signature(self) -> Signature:
        """That of the data."""
        return self.search.task.signature

    @property
    def metric(self) -> Metric:
        """That of the task."""
        return make_metric(self.search.config.task.metric)

    def among(self, trials: Sequence[Trial]) -> "Race":
        """The same with these trials only."""
        return replace(self, trials=trials)

    def of(self, stage: str) -> list[Trial]:
        """The trials of a stage."""
        return [trial for trial in self.trials if trial.origin == stage]

    @property
    def fitted(self) -> Trial | None:
        """The fitted model, where it takes part."""
        return next((trial for trial in self.trials if trial.role == "fitted"), None)

    def order(self, *stages: str, fitted: Trial | None = None) -> list[Trial]:
        """How the networks of some stages stand, perhaps beside the fitted model."""
        one = 1 / len(self.search.task.val) if self.metric.name in ("accuracy", "error") else 0.0  # more is no lead
        trials = [trial for trial in self.trials if trial.origin in stages]
        return standings(trials, self.metric.goal, self.space.plain.name, one, fitted)

    @property
    def standing(self) -> list[Trial]:
        """Every network by its longest trainings; before them the fitted model, if no network is ahead of it."""
        return self.order(*STAGES, fitted=self.fitted)

    @property
    def fitted_leads(self) -> bool:
        """Whether no network is ahead of the fitted model."""
        return any(trial.role == "fitted" for trial in self.standing[:1])

    def overfits(self, trial: Trial) -> bool:
        """Whether a network knows its training samples much better than others."""
        if trial.fit is None or trial.valid is None:
            return False
        return self.metric.short_of(trial.fit) < _KNOWN * self.metric.short_of(trial.valid)

    @cached_property
    def hurries(self) -> bool:
        """Whether the first network did not see all samples in its short training: there is time for narrow ones."""
        first = network_named(self.space.start(self.signature))
        known = [trial for trial in self.of(SHORT) if network_of(trial) == first]
        return any(trial.state == "done" and not saw_all(trial) for trial in known)

    @property
    def time_for_others(self) -> bool:
        """Whether other spaces have a turn: what they make of a network is slower still, unless the user wants it."""
        return bool(self.space.named or (self.space.others and not self.hurries))

    @cached_property
    def room(self) -> int:
        """How many short trainings there is time for, so that each is worth something; at least those that began."""
        config, known = self.search.config, self.of(SHORT)
        seconds = 60 * config.budget.minutes * config.run.workers
        room = 0 if self.of(LONG) else int(_SHORTS * seconds / (self.options.shortest + beside(known)))
        return max(1, room, len(known))

    def finalists(self, networks: int) -> int:
        """How many of so many networks have a long training: half of few."""
        return min(self.options.finalists, max(1, networks // 2))

    def changes(self, networks: int) -> list[dict[str, dict[str, Any]]]:
        """The ways in which the samples of the leader may be changed: few of few networks."""
        return self.all_changes[: sum(networks >= least for least in _CHANGES)]

    @property
    def all_changes(self) -> list[dict[str, dict[str, Any]]]:
        """The same of many networks. None where the user has chosen some, be it for the final training alone."""
        config = self.search.config
        if not self.options.changes or config.augment.names or "augment" in config.final.options:
            return []
        return usual_changes(self.signature, pointwise=config.task.standardise == "pointwise")

    @property
    def last(self) -> int:
        """How many long trainings the final stage counts for; without test samples there is none."""
        return _LAST * self.search.config.final.networks if self.search.task.test is not None else 0

    @property
    def seconds_left(self) -> float:
        """Of the run, for trainings, after the last one that has ended."""
        gone = max((trial.elapsed or 0.0 for trial in self.trials), default=0.0)
        return for_trainings(60 * self.search.config.budget.minutes) - gone

    @property
    def time_for_more(self) -> bool:
        """Whether two more long trainings leave the final one its time."""
        known = self.among([trial for trial in self.trials if trial.origin != AGAIN])
        seconds = [trial.seconds or 0.0 for trial in known.of(LONG)]
        left = known.seconds_left - time_for_tests(known.standing, self.search.task)
        return bool(seconds) and left > (2 + self.last) * max(seconds)


def saw_all(trial: Trial) -> bool:
    """Whether a training saw all samples once; in its last epoch perhaps only some of them."""
    last = trial.history[-1] if trial.history else {}
    return (trial.epochs or 0) - 1 + float(last.get("seen", 1.0)) >= 1
