"""Tables for the terminal: the end of a run, and its trials."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from eclose.runs import Trial


def result_table(result: Mapping[str, Any]) -> Table:
    """Found network and baselines side by side; the best test value is bold."""
    metric, goal = result["metric"]["name"], result["metric"]["goal"]
    # The run's own seconds are those of all trainings; a row shows its own.
    rows = [{**result, "seconds": result.get("trial_seconds")}, *result["baselines"]]
    values = [row["test"] if row["test"] is not None else row["valid"] for row in rows]
    finite = [value for value in values if value is not None]
    best = (max if goal == "max" else min)(finite) if finite else None
    table = Table(
        title=f"{result['task']}: {metric.replace('_', ' ')} ({'higher' if goal == 'max' else 'lower'} is better)"
    )
    for column in ("network", "valid", "test", "parameters", "seconds"):
        table.add_column(column, justify="left" if column == "network" else "right")
    for row, value in zip(rows, values, strict=True):
        style = "bold" if value is not None and value == best else ""
        name = f"{row['name']} (failed)" if row.get("state") == "failed" else row["name"]
        cells = [
            name,
            number(row["valid"]),
            number(row["test"]),
            count(row["parameters"]),
            seconds(row["seconds"]),
        ]
        table.add_row(*cells, style=style)
    if "search" in result:
        table.caption = _searched(result["trials"], result["search"])
    return table


def _searched(trials: int, search: Mapping[str, Any]) -> str:
    ends = [f"{search[end]} {end}" for end in ("stopped", "failed") if search[end]]
    foretold = [correlation_text(search["rank_correlation"])] if "rank_correlation" in search else []
    return "\n".join([", ".join([f"best of {trials} networks", *ends]), *foretold])


def correlation_text(correlation: Mapping[str, Any]) -> str:
    """How well scores foretold the trainings."""
    trials = correlation["trials"]
    figures = [f"{name} {_signed(value)}" for name, value in correlation.items() if name != "trials"]
    return f"rank correlation of scores and metric, {trials} trials to the end: {', '.join(figures)}"


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2f}"


def trials_table(trials: list[Trial]) -> Table:
    """Every training of a run."""
    columns = ["trial", "role", "network", "state", "epochs", "valid", "test", "parameters", "seconds"]
    if any(trial.reason for trial in trials):
        columns.append("reason")
    table = Table()
    for column in columns:
        table.add_column(column, justify="left" if column in ("role", "network", "state", "reason") else "right")
    for t in trials:
        epochs = str(t.epochs) if t.epochs is not None else "-"
        figures = [number(t.valid), number(t.test), count(t.parameters), seconds(t.seconds)]
        cells = [str(t.number), t.role, t.name, t.state, epochs, *figures, t.reason]
        table.add_row(*cells[: len(columns)])
    return table


def number(value: float | None) -> str:
    """Four significant digits, or a dash."""
    return "-" if value is None else f"{value:.4g}"


def count(value: int | None) -> str:
    """With thousands separated."""
    return "-" if value is None else f"{value:,}"


def seconds(value: float | None) -> str:
    """Seconds with one decimal."""
    return "-" if value is None else f"{value:.1f}"
