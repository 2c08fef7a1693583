"""The figures of the networks and of the trials, as table rows."""

from collections.abc import Sequence
from dataclasses import dataclass

from eclose.display.networks import PREDICTORS, Metric, Network
from eclose.display.wording import NOTHING, count, duration, finite, listed, milliseconds, number, score, whole
from eclose.runs import FIGURES, Figure, Trial

_TEXTS = {"count": count, "whole": whole, "distance": number, "milliseconds": milliseconds, "seconds": duration}


@dataclass(frozen=True)
class Cell:
    """A figure; ``exact`` is its full value, ``best`` marks the best of the column."""

    heading: str
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
    change: str = ""  # against its parents, or what it is, in words


def columns_of(trials: Sequence[Trial]) -> list[Figure]:
    """The columns in which at least one trial has a figure; the metric's are never left out."""
    shown = [figure for figure in FIGURES if figure.page]
    return [f for f in shown if f.name == "valid" or any(_has(trial, f) for trial in trials)]


def figure_text(figure: Figure, value: float | None, metric: Metric) -> str:
    """As people read it."""
    return score(metric.name, value) if figure.unit == "score" else _TEXTS[figure.unit](value)


def network_rows(networks: Sequence[Network], metric: Metric, columns: Sequence[Figure]) -> list[Row]:
    """Found network, baselines and predictors, the best of each column marked; sizes are those of networks."""
    trained = [network.trial for network in networks if network.trained]
    everyone = [network.trial for network in networks]
    best = {f.name: _best(everyone if f.better == "metric" else trained, metric, f) for f in columns}
    return [
        Row(
            network.trial.number,
            network.label,
            network.trial.state,
            network.trial.reason,
            [_cell(network.trial, figure, metric, best[figure.name]) for figure in columns],
            network.colour,
            network.found,
            trained=network.trained,
            collapsed=network.trial.collapsed,
            note=network.trial.note,
            change=network.trial.description.partition(": ")[2],
        )
        for network in networks
    ]


def trial_rows(trials: Sequence[Trial], metric: Metric, columns: Sequence[Figure], chosen: int | None) -> list[Row]:
    """Every trial of the search."""
    names = {trial.number: trial.name for trial in trials}
    return [
        Row(
            trial.number,
            trial.label,
            trial.state,
            trial.reason,
            [_cell(trial, figure, metric, "") for figure in columns],
            found=trial.number == chosen,
            parents=listed([names[number] for number in trial.parents if number in names]),
            collapsed=trial.collapsed,
            note=trial.note,
            change=trial.description.partition(": ")[2],
        )
        for trial in trials
    ]


def _has(trial: Trial, figure: Figure) -> bool:
    """Whether there is a figure to show: an architecture of no parameters is none."""
    value = getattr(trial, figure.name)
    return finite(value) and (value > 0 or not figure.rare)


def _best(trials: Sequence[Trial], metric: Metric, figure: Figure) -> str:
    """The best figure as it is written, so that figures that read the same are marked alike."""
    values = [getattr(trial, figure.name) for trial in trials if trial.state == "done"]
    values = [value for value in values if finite(value)]
    if len(values) < 2 or not figure.better:
        return ""
    judge = metric if figure.better == "metric" else Metric(figure.name, "min")
    best = judge.best(values)
    texts = {figure_text(figure, value, metric) for value in values}
    return figure_text(figure, best, metric) if best is not None and len(texts) > 1 else ""


def _cell(trial: Trial, figure: Figure, metric: Metric, best: str) -> Cell:
    value = getattr(trial, figure.name)
    text = figure_text(figure, value, metric)
    judged = trial.role not in PREDICTORS or figure.better == "metric"
    marked = judged and trial.state == "done" and text != NOTHING and text == best
    return Cell(figure.page, text, _exact(figure, value), marked)


def _exact(figure: Figure, value: float | None) -> str:
    if not finite(value):
        return ""
    if figure.unit == "count":
        return whole(value)
    return f"{number(value)} s" if figure.unit == "seconds" else repr(value)
