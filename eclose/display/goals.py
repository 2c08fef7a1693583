"""What the trials of a run are judged by."""

from dataclasses import dataclass

from eclose.config import Config
from eclose.display.wording import finite
from eclose.engine import make_strategy, strategies
from eclose.runs import OBJECTIVES, Trial
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


def objectives_of(config: Config) -> tuple[str, ...]:
    """Of the strategy; one that does not compare networks has the error only."""
    if config.strategy.name not in strategies:
        return ("error",)
    selection = make_strategy(config).selection
    return selection.objectives if selection else ("error",)
