"""The figures of the networks and of the trials, as table rows."""

from collections.abc import Sequence
from dataclasses import dataclass

from eclose.display.networks import PREDICTORS, Metric, Network
from eclose.display.wording import NOTHING, count, duration, finite, listed, milliseconds, number, score, whole
from eclose.runs import Trial

COLUMNS = ("test", "valid", "parameters", "architecture_parameters", "flops", "latency", "epochs", "seconds")


@dataclass(frozen=True)
class Cell:
    """A figure; ``exact`` is its full value, ``best`` marks the best of the column."""

    column: str
    text: str
    exact: str = ""
    best: bool = False


@dataclass(frozen=True)
class Row:
    """One network or trial."""

    number: int
    name: str
    state: str
    reason: str
    cells: list[Cell]
    colour: int | None = None
    found: bool = False
    parents: str = ""
    trained: bool = True
    collapsed: bool = False
    note: str = ""


def columns_of(trials: Sequence[Trial]) -> list[str]:
    """The columns in which at least one trial has a figure; the metric's are never left out."""
    return [c for c in COLUMNS if c == "valid" or any(_has(trial, c) for trial in trials)]


def network_rows(networks: Sequence[Network], metric: Metric, columns: Sequence[str]) -> list[Row]:
    """Found network, baselines and predictors, the best of each column marked; sizes are those of networks."""
    trained = [network.trial for network in networks if network.trained]
    everyone = [network.trial for network in networks]
    best = {c: _best(everyone if c in ("test", "valid") else trained, metric, c) for c in columns}
    return [
        Row(
            network.trial.number,
            network.label,
            network.trial.state,
            network.trial.reason,
            [_cell(network.trial, column, metric, best[column]) for column in columns],
            network.colour,
            network.found,
            trained=network.trained,
            collapsed=network.trial.collapsed,
            note=network.trial.note,
        )
        for network in networks
    ]


def trial_rows(trials: Sequence[Trial], metric: Metric, columns: Sequence[str], chosen: int | None) -> list[Row]:
    """Every trial of the search."""
    names = {trial.number: trial.name for trial in trials}
    return [
        Row(
            trial.number,
            trial.name,
            trial.state,
            trial.reason,
            [_cell(trial, column, metric, "") for column in columns],
            found=trial.number == chosen,
            parents=listed([names[number] for number in trial.parents if number in names]),
            collapsed=trial.collapsed,
            note=trial.note,
        )
        for trial in trials
    ]


def _has(trial: Trial, column: str) -> bool:
    """Whether there is a figure to show: an architecture of no parameters is none."""
    value = getattr(trial, column)
    return finite(value) and (value > 0 or column != "architecture_parameters")


def _best(trials: Sequence[Trial], metric: Metric, column: str) -> str:
    """The best figure as it is written, so that figures that read the same are marked alike."""
    done = [trial for trial in trials if trial.state == "done" and finite(getattr(trial, column))]
    if len(done) < 2 or column in ("epochs", "architecture_parameters"):
        return ""
    judge = metric if column in ("test", "valid") else Metric(column, "min")
    best = judge.best(getattr(trial, column) for trial in done)
    texts = {_text(column, getattr(trial, column), metric) for trial in done}
    return _text(column, best, metric) if best is not None and len(texts) > 1 else ""


def _cell(trial: Trial, column: str, metric: Metric, best: str) -> Cell:
    value = getattr(trial, column)
    text = _text(column, value, metric)
    judged = trial.role not in PREDICTORS or column in ("test", "valid")
    marked = judged and trial.state == "done" and text != NOTHING and text == best
    return Cell(column, text, _exact(column, value), marked)


def _text(column: str, value: float | None, metric: Metric) -> str:
    if column in ("test", "valid"):
        return score(metric.name, value)
    texts = {"latency": milliseconds, "epochs": whole, "seconds": duration}
    return texts.get(column, count)(value)


def _exact(column: str, value: float | None) -> str:
    if not finite(value):
        return ""
    if column in ("parameters", "architecture_parameters", "flops"):
        return whole(value)
    return f"{number(value)} s" if column == "seconds" else repr(value)
