"""The figures of a trial: one line here makes a column, an entry of ``result.json``, a heading of tables and pages."""

import dataclasses
import typing
from dataclasses import dataclass
from typing import Any, Literal

Unit = Literal["score", "count", "whole", "distance", "milliseconds", "seconds"]


@dataclass(frozen=True)
class Figure:
    """What all who read figures need to know of one. A heading that is empty: it is not shown there."""

    name: str  # of the attribute, the column and the entry
    column: str  # its type in SQLite
    unit: Unit  # how it is written; a score is a value of the task's metric
    page: str = ""  # heading on the page
    result: str = ""  # heading in the terminal, at the end of a run
    listing: str = ""  # heading in the list of trials, of which all fit 80 columns
    better: Literal["metric", "less", ""] = ""  # which way; empty: neither
    objective: str = ""  # what ``strategy.objectives`` calls it; empty: it is none
    rare: bool = False  # left out where nobody has it


def _figure(unit: Unit, **more: Any) -> Any:
    return dataclasses.field(default=None, metadata={"unit": unit, **more})


@dataclass(frozen=True, kw_only=True)
class Figures:
    """All of them, in the order of tables; None: not known."""

    valid: float | None = _figure(
        "score", page="validation", result="valid", listing="valid", better="metric", objective="error"
    )
    test: float | None = _figure("score", page="test", result="test", listing="test", better="metric")
    # The metric on test samples, else on validation samples, of what a supernet found: with the weights that it was
    # searched with, and with weights that were trained anew.
    supernet: float | None = _figure("score", page="supernet", result="supernet", better="metric", rare=True)
    offline: float | None = _figure("score", page="offline", result="offline", better="metric", rare=True)
    parameters: int | None = _figure(
        "count", page="parameters", result="parameters", listing="params", better="less", objective="parameters"
    )
    # Of the parameters; None in older runs.
    architecture_parameters: int | None = _figure("count", page="architecture", result="architecture", rare=True)
    flops: int | None = _figure("count", page="FLOPs", better="less", objective="flops")
    # Of a forward pass, where it is an objective.
    latency: float | None = _figure(
        "milliseconds", page="latency", listing="ms", better="less", objective="latency", rare=True
    )
    # From the maps of its teacher: the mean of the attention transfer loss on validation samples.
    attention: float | None = _figure("distance", page="from the teacher", better="less", rare=True)
    epochs: int | None = _figure("whole", page="epochs", listing="epochs")
    seconds: float | None = _figure("seconds", page="time", result="seconds", listing="s", better="less")
    # Where labels are compared by a figure that often ties: their mean negative log-likelihood on validation samples.
    valid_loss: float | None = _figure("score", rare=True)
    # The metric on samples that it was trained on: of a final training the validation samples, of a long training of a
    # portfolio as many of its training samples.
    fit: float | None = _figure("score", rare=True)

    # Seconds that the training may take, and those of the whole run that had gone by when it ended.
    allowed: float | None = _figure("seconds", rare=True)
    elapsed: float | None = _figure("seconds", rare=True)
    # Seconds of a pass over the validation samples, from which those over the test samples follow.
    judging: float | None = _figure("seconds", rare=True)

    def figures(self) -> dict[str, Any]:
        """By name; without rare ones that are not known."""
        values = {figure.name: getattr(self, figure.name) for figure in FIGURES}
        return {name: value for name, value in values.items() if value is not None or name not in _RARE}


def _column(kind: Any) -> str:
    return "INTEGER" if int in typing.get_args(kind) else "REAL"


FIGURES = tuple(Figure(field.name, _column(field.type), **field.metadata) for field in dataclasses.fields(Figures))
"""The table, line by line."""

_RARE = {figure.name for figure in FIGURES if figure.rare}

OBJECTIVES = {figure.objective: figure for figure in FIGURES if figure.objective}
"""What a search may compare networks by."""
