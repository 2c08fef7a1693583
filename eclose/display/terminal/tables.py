"""Tables for the terminal: the end of a run, and its trials."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from eclose.display.sections.headline import chance, fitted_won
from eclose.display.wording import listed
from eclose.plural import plural
from eclose.runs import FIGURES, Figure, Trial

_MANY = 6  # columns of figures, more of which stand close together
_NAME = 12  # columns of a terminal, for the names of networks
_SPARE = ("seconds", "architecture_parameters", "parameters")  # left out first where the terminal is narrow


class ResultTable:
    """Found network, baselines and, below a rule, predictors that need no training; the best test value is bold.

    A terminal that is too narrow for it gets one without lines, then one with fewer columns: no figure is cut.
    """

    def __init__(self, result: Mapping[str, Any]) -> None:
        figures = [f for f in FIGURES if f.result and (not f.rare or any(row.get(f.name) for row in _rows(result)))]
        kept = [[f for f in figures if f.name not in _SPARE[:left_out]] for left_out in range(len(_SPARE) + 1)]
        self.shapes = [_result_table(result, figures), *(_result_table(result, some, lines=False) for some in kept)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = [Measurement.get(console, options.update(width=1000), table).minimum for table in self.shapes]
        fitting = (table for table, width in zip(self.shapes, widths, strict=True) if width <= options.max_width)
        yield next(fitting, self.shapes[-1])


def result_table(result: Mapping[str, Any]) -> ResultTable:
    """What a search ends with."""
    return ResultTable(result)


def _rows(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The run's own seconds are those of all trainings; a row shows its own."""
    return [{**result, "seconds": result.get("trial_seconds")}, *result["baselines"]]


def _result_table(result: Mapping[str, Any], figures: Sequence[Figure], lines: bool = True) -> Table:
    metric, goal = result["metric"]["name"], result["metric"]["goal"]
    rows = _rows(result)
    values = [row["test"] if row["test"] is not None else row["valid"] for row in rows]
    finite = [value for value in values if value is not None]
    best = (max if goal == "max" else min)(finite) if finite else None
    table = Table(
        title=f"{result['task']}: {metric.replace('_', ' ')} ({'higher' if goal == 'max' else 'lower'} is better)",
        padding=(0, 1 if lines and len(figures) <= _MANY else 0),  # all headings fit 80 columns
        box=box.HEAVY_HEAD if lines else box.SIMPLE_HEAD,
        pad_edge=lines,
    )
    table.add_column("network", min_width=_NAME)
    for figure in figures:
        table.add_column(figure.result, justify="right")
    trained = sum(row.get("kind", "network") == "network" for row in rows)
    for place, (row, value) in enumerate(zip(rows, values, strict=True), 1):
        style = "bold" if value is not None and value == best else ""
        cells = [_text(figure, row.get(figure.name)) for figure in figures]  # older results have fewer
        table.add_row(f"{row['name']}{_mark(row)}", *cells, style=style, end_section=place == trained)
    table.caption = _caption(result)
    return table


def _caption(result: Mapping[str, Any]) -> Text | None:
    searched = Text(_searched(result["trials"], result["search"]) if result.get("search") else "")
    unbeaten = [f"the {name}" for name in result.get("unbeaten") or []]
    need = "which needs" if len(unbeaten) == 1 else "which need"
    told = f"{result['name']} is no better than {listed(unbeaten)}, {need} no training"
    lost = Text(told if unbeaten else "", "bold not dim not italic")
    lines = [line for line in (lost, searched) if line]
    return Text("\n").join(lines) if lines else None


def _mark(row: Mapping[str, Any]) -> str:
    if row.get("state") == "failed":
        return " (failed)"
    return " (collapsed)" if row.get("collapsed") else ""


def _searched(trials: int, search: Mapping[str, Any]) -> str:
    ends = [f"{search[end]} {end}" for end in ("stopped", "failed") if search.get(end)]
    tried = search.get("networks", trials)
    best = f"best of {tried} networks" if tried > 1 else "the only network that was tried"
    if won := fitted_won(search):
        best = f"{won}; {plural(tried, 'network')} tried"
    trained = f" in {trials} trainings" if tried != trials else ""
    foretold = [correlation_text(search["rank_correlation"])] if "rank_correlation" in search else []
    missed = search.get("missed")
    short = f"the run was too short to try {listed(missed)}, which space.spaces names" if missed else ""
    said = [line for line in (chance(search), short) if line]
    return "\n".join([", ".join([f"{best}{trained}", *ends]), *said, *foretold])


def correlation_text(correlation: Mapping[str, Any]) -> str:
    """How well scores foretold the trainings."""
    trials = correlation["trials"]
    figures = [f"{name} {_signed(value)}" for name, value in correlation.items() if name != "trials"]
    return f"rank correlation of scores and metric, {trials} trials to the end: {', '.join(figures)}"


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2f}"


def trials_table(trials: list[Trial]) -> Table:
    """Every training of a run, with the reasons of failures below; it fits a terminal of 80 columns."""
    columns = {
        "trial": [str(t.number) for t in trials],
        "network": [_named(t) for t in trials],
        "state": [_state(t) for t in trials],
    }
    for figure in FIGURES:
        values = [getattr(t, figure.name) for t in trials]
        if figure.listing and (not figure.rare or any(values)):
            columns[figure.listing] = [_text(figure, value) for value in values]
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), caption_justify="left")
    for name in columns:  # a long name goes on in the next line
        table.add_column(name, justify="left" if name in ("network", "state") else "right", no_wrap=name != "network")
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    failed = [f"{t.number} failed: {t.reason}" for t in trials if t.state == "failed"]
    table.caption = "\n".join([*failed, *(f"{t.number} {t.note}" for t in trials if t.note)]) or None
    return table


def _state(trial: Trial) -> str:
    if trial.state == "done" and trial.collapsed:
        return "collapsed"
    return "stopped" if trial.state == "done" and trial.reason else trial.state


def _named(trial: Trial) -> str:
    """``mutated 9bc1 of 3``, ``child of resnet18 9bc1 (3)``, ``mutated 9bc1, final``."""
    if trial.role not in ("search", "teacher", "fitted"):  # these are named so
        return f"{trial.name}, {trial.role}"
    parents = ", ".join(map(str, dict.fromkeys(trial.parents)))
    if parents and " of " in trial.name:
        return f"{trial.name} ({parents})"
    return f"{trial.name} of {parents}" if parents else trial.label


def significant(value: float | None, digits: int = 4) -> str:
    """Significant digits, or a dash."""
    return "-" if value is None else f"{value:.{digits}g}"


def _text(figure: Figure, value: Any) -> str:
    """A figure of a trial, or a dash; its heading has the unit."""
    formats = {"score": ".4g", "count": ",", "whole": ",", "distance": ".3g", "milliseconds": ".3g", "seconds": ".1f"}
    return "-" if value is None else f"{value:{formats[figure.unit]}}"
