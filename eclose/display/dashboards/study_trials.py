"""Rows of the trial table as trials of an Optuna study, with what they are judged by."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from eclose.config import Config
from eclose.display.networks import objectives_of
from eclose.display.wording import finite, shortened
from eclose.runs import FIGURES, OBJECTIVES, Run, Trial
from eclose.spaces import Genotype, space_of
from eclose.train.metrics import make_metric


@dataclass(frozen=True)
class Goals:
    """Objectives in the order of their values; ``error`` is the metric of the task on validation samples."""

    objectives: tuple[str, ...]
    metric: str
    directions: list[str]  # maximize or minimize

    @classmethod
    def of(cls, config: Config) -> "Goals":
        """Those of a complete configuration."""
        metric = make_metric(config.task.metric)
        better = {"metric": "maximize" if metric.goal == "max" else "minimize"}
        objectives = objectives_of(config)
        return cls(objectives, metric.name, [better.get(OBJECTIVES[name].better, "minimize") for name in objectives])

    @property
    def names(self) -> list[str]:
        """As people read them."""
        shown = {"score": f"{self.metric} (validation)", "milliseconds": "{} (ms)", "seconds": "{} (s)"}
        return [shown.get(OBJECTIVES[name].unit, "{}").format(name) for name in self.objectives]

    def values(self, trial: Trial) -> tuple[float, ...] | None:
        """The figures of a trial; None where one is missing or no number."""
        values = [getattr(trial, OBJECTIVES[name].name) for name in self.objectives]
        return tuple(float(value or 0.0) for value in values) if all(map(finite, values)) else None


ORIGINS = ("drawn", "mutated", "crossed", "seed", "start")  # Optuna wants all choices at once
_SIZES = [figure for figure in FIGURES if figure.unit == "count" and figure.objective]
_TOLD = [figure for figure in FIGURES if figure.unit != "score" and figure not in _SIZES]  # scores are values
_LARGEST = 2**53  # Optuna keeps parameters as floats
_TEXT = 300  # characters of a network: the dashboard shows them on one line


def state_of(trial: Trial, goals: Goals) -> str:
    """``COMPLETE``, ``PRUNED`` (stopped early, but it counts) or ``FAIL``."""
    if trial.state != "done" or goals.values(trial) is None:
        return "FAIL"
    return "PRUNED" if trial.reason else "COMPLETE"


def identity(trial: Trial, goals: Goals) -> tuple[Any, ...]:
    """What tells whether a study has this row: number, network, end and figures."""
    state = state_of(trial, goals)
    return trial.number, trial.hash, state, None if state == "FAIL" else goals.values(trial)


def identity_of_frozen(frozen: Any) -> tuple[Any, ...]:
    """The same, of a trial of the study."""
    told = frozen.user_attrs
    values = frozen.values
    return told.get("trial"), told.get("hash"), frozen.state.name, None if values is None else tuple(values)


def frozen_trial(run: Run, trial: Trial, goals: Goals, optuna: Any) -> Any:
    """A row as a ``FrozenTrial``."""
    state = state_of(trial, goals)
    begun, ended = _times(run, trial)
    params, distributions = _params(trial, optuna.distributions)
    curve = {entry["epoch"]: entry["valid"] for entry in trial.history if finite(entry.get("valid"))}
    return optuna.trial.FrozenTrial(
        number=trial.number,  # the study gives it another one, in the order in which trials end
        trial_id=trial.number,
        state=optuna.trial.TrialState[state],
        value=None,
        values=None if state == "FAIL" else goals.values(trial),
        datetime_start=begun,
        datetime_complete=ended,
        params=params,
        distributions=distributions,
        user_attrs=_attributes(run, trial),
        system_attrs={},
        intermediate_values=curve,
    )


def ended(trials: Sequence[Trial]) -> list[Trial]:
    """Those that a study shows: of the search, not under way."""
    return [trial for trial in trials if trial.role == "search" and trial.state != "running"]


def _params(trial: Trial, distributions: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    size = distributions.IntDistribution(1, _LARGEST, log=True)
    known = {
        "origin": (trial.origin or "start", distributions.CategoricalDistribution(ORIGINS)),
        **{figure.name: (getattr(trial, figure.name), size) for figure in _SIZES},
    }
    known = {name: pair for name, pair in known.items() if pair[0]}  # a failed trial may have no sizes
    return {name: value for name, (value, _) in known.items()}, {name: kind for name, (_, kind) in known.items()}


def _attributes(run: Run, trial: Trial) -> dict[str, Any]:
    genotype = Genotype(trial.space, trial.genotype)
    text = space_of(genotype, run.config).text(genotype) or json.dumps(trial.genotype)
    told = {
        "trial": trial.number,
        "name": trial.name,
        "hash": trial.hash,
        "parents": trial.parents,
        "description": trial.description,
        "network": shortened(text, _TEXT),
        "strategy": run.config.strategy.name,
        "seed": trial.seed,
        **{figure.name: getattr(trial, figure.name) for figure in _TOLD},
        "reason": trial.reason,
    }
    return {key: value for key, value in told.items() if value not in (None, "", [])}


def _times(run: Run, trial: Trial) -> tuple[datetime, datetime]:
    """Begin and end: the table knows how long a training took, its folder when it began."""
    asked = run.trial_folder(trial.number) / "asked.json"
    file = asked if asked.exists() else run.path / "config.toml"
    begun = datetime.fromtimestamp(file.stat().st_mtime)
    return begun, begun + timedelta(seconds=trial.seconds or 0.0)
