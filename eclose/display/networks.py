"""The networks a page tells about: the one the run arrived at, those trained beside it, and their colours."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eclose.config import Config
from eclose.display.wording import finite
from eclose.engine import make_strategy, strategies
from eclose.errors import ConfigError
from eclose.runs import FIGURES, Trial, with_earlier
from eclose.train.metrics import make_metric

COLOURS = 6  # networks with a colour of their own; further ones share a grey
GREY = COLOURS
PREDICTORS = ("trivial", "fitted")  # roles of rows that no training stands behind


@dataclass(frozen=True)
class Metric:
    """What the networks are judged by; the goal is empty where it is not known."""

    name: str
    goal: str  # max, min or empty

    def best(self, values: Iterable[float | None]) -> float | None:
        """The best of the finite values."""
        known = [value for value in values if finite(value)]
        if not known or not self.goal:
            return None
        return max(known) if self.goal == "max" else min(known)  # type: ignore[type-var]

    def better(self, a: float | None, b: float | None) -> bool:
        """Whether ``a`` beats ``b``; what is no number beats nothing."""
        return finite(a) and a != b and self.best((a, b)) == a


def metric_of(config: Config, result: dict[str, Any] | None) -> Metric:
    """From the result, else by the configured name; a metric of an unknown name has no goal."""
    data = (result or {}).get("metric") or {}
    if data.get("goal") in ("max", "min"):
        return Metric(str(data.get("name", "")), data["goal"])
    try:
        return Metric(config.task.metric, make_metric(config.task.metric).goal)
    except ConfigError:
        return Metric(config.task.metric, "")


def objectives_of(config: Config) -> tuple[str, ...]:
    """Of the strategy; one that does not compare networks has the error only."""
    if config.strategy.name not in strategies:
        return ("error",)
    selection = make_strategy(config).selection
    return selection.objectives if selection else ("error",)


@dataclass(frozen=True)
class Network:
    """A row of the result table."""

    trial: Trial
    label: str
    found: bool  # what the run was for, not a baseline
    colour: int = GREY

    @property
    def done(self) -> bool:
        """Trained to its end."""
        return self.trained and self.trial.state == "done"

    @property
    def trained(self) -> bool:
        """Not one of the predictors that need no training, unless it has won."""
        return self.found or self.trial.role not in PREDICTORS

    @property
    def fitted(self) -> bool:
        """A model that was fitted in closed form."""
        return self.trial.genotype.get("fitted") is True

    def value(self, split: str) -> float | None:
        """The metric on ``test`` or ``valid``, if it is a finite number."""
        value: float | None = getattr(self.trial, split)
        return value if finite(value) else None


def networks_of(trials: Sequence[Trial], result: dict[str, Any] | None, metric: Metric) -> list[Network]:
    """The found network, the baselines in the order of their training, then predictors that need no training."""
    found = _found(trials, result, metric)
    beside = [row.get("trial") for row in result.get("baselines", [])] if result else []  # of a search among them
    baselines = [trial for trial in trials if trial.role in ("baseline", "teacher") or trial.number in beside]
    baselines.sort(key=lambda trial: beside.index(trial.number) if trial.number in beside else trial.number)
    told = _from_result(result) if result else []
    if found is None and not baselines and told:
        found, *baselines = [trial for trial in told if trial.role not in PREDICTORS]
    networks = [Network(with_earlier(found, trials), found.name, True)] if found is not None else []
    networks += [Network(with_earlier(trial, trials), trial.name, False) for trial in baselines]
    predictors = [Network(trial, trial.name, False) for trial in told if trial.role in PREDICTORS]
    return [*_coloured(networks, metric), *predictors]


def _found(trials: Sequence[Trial], result: dict[str, Any] | None, metric: Metric) -> Trial | None:
    """The trial that the result names, else a final training that succeeded, else the best so far."""
    named = [trial for trial in trials if result and trial.number == result.get("trial")]  # not in older results
    if named:
        return named[0]
    finals = [trial for trial in trials if trial.role == "final" and trial.state == "done"]
    own = finals or [trial for trial in trials if trial.role == "search"]
    done = [trial for trial in own if trial.state == "done"]
    # The driver tests one search trial only: the one it chose.
    tested = [trial for trial in done if result and trial.test is not None]
    candidates = tested or done or own[-1:]
    best = metric.best(trial.valid for trial in candidates)
    return next((t for t in candidates if t.valid == best), candidates[0] if candidates else None)


def _from_result(result: dict[str, Any]) -> list[Trial]:
    """Rows from ``result.json`` alone: predictors have no others, nor has a folder without its trial table."""
    rows = []
    for number, data in enumerate([result, *result.get("baselines", [])]):
        trial = Trial(
            number,
            role=_role(data) if number else "search",
            name=str(data.get("name") or result.get("task", "network")),
            space=str(result.get("space", "")),
            genotype={},
            hash="",
            seed=0,
            state=str(data.get("state", "done")),
            reason=str(data.get("reason") or ""),
            collapsed=data.get("collapsed") is True,
            note=str(data.get("note") or ""),
        )
        rows.append(replace(trial, **{f.name: data[f.name] for f in FIGURES if finite(data.get(f.name))}))
    return rows


def _role(baseline: dict[str, Any]) -> str:
    return baseline["kind"] if baseline.get("kind") in PREDICTORS else "baseline"


def _coloured(networks: list[Network], metric: Metric) -> list[Network]:
    """Colours in the order of the table; with too many networks for that, the best ones have them."""

    def rank(network: Network) -> tuple[bool, bool, float]:
        value = network.value("test") if network.value("test") is not None else network.value("valid")
        return not network.found, value is None, (-1 if metric.goal == "max" else 1) * (value or 0.0)

    chosen = networks if len(networks) <= COLOURS else sorted(networks, key=rank)[:COLOURS]
    numbers = [network.trial.number for network in networks if network in chosen]
    return [
        replace(network, colour=numbers.index(network.trial.number)) if network in chosen else network
        for network in networks
    ]
