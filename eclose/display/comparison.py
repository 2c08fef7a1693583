"""Runs side by side: a table for the terminal, and a page with links to those of the runs."""

import os
import shlex
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from matplotlib.figure import Figure
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from eclose.display.explanation.html import environment
from eclose.display.networks import Metric
from eclose.display.sections.plots import Plot, scale_axis, suits_log
from eclose.display.sections.svg import INK, PAPER, QUIET, SERIES, inline_svg, panel
from eclose.display.terminal.tables import significant
from eclose.display.wording import NOTHING, count, duration, metric_noun, score, shortened
from eclose.plural import plural
from eclose.runs import write_text
from eclose.runs.comparison import Row, Standing, mean

PAGE = "comparison.html"
_WIDTH, _STEP, _LEFT, _TOP, _BOTTOM = 1040, 46, 56, 12, 42


def verdict(standing: Standing) -> str:
    """Who is first, by how much, whether that is more than chance, and who is better without a search."""
    first, second = standing.searches[:2]
    return f"{_lead(standing, first, second)}{_unsearched(standing, first)}"


def _lead(standing: Standing, first: Row, second: Row) -> str:
    if not first.valid:
        return "No search has a figure on validation samples."
    told = f"By validation {metric_noun(standing.metric)} {first.name} is first"
    if standing.ahead is None:
        return f"{told}; no other has a figure."
    if standing.ahead == 0:
        return f"On validation samples {first.name} and {second.name} are equally good."
    told = f"{told}, {standing.ahead:.3g} ahead of {second.name}"
    if standing.apart is None:
        return f"{told}. Each was searched with one seed, so this may be chance: --seeds 3 tells."
    more = "more" if standing.ahead > standing.apart else "no more"
    return f"{told}, {more} than seeds of one space are apart ({standing.apart:.3g})."


def _unsearched(standing: Standing, first: Row) -> str:
    metric, value = Metric(standing.metric, standing.goal), mean(first.valid)
    better = [row for row in standing.rows if row.kind != "search" and metric.better(mean(row.valid), value)]
    if not better:
        return ""
    best = max(better, key=lambda row: (mean(row.valid) or 0.0) * (1 if standing.goal == "max" else -1))
    plain = best.kind == "network"
    name = f"{best.name}, which was not searched," if plain else f"the {best.name}, which needs no training,"
    return f" But {name} is better there: {score(standing.metric, mean(best.valid))}."


def comparison_table(standing: Standing, failed: Sequence[str] = ()) -> RenderableType:
    """Searches, networks trained beside them, predictors; the best test value is bold. Below it, who is first."""
    better = "higher" if standing.goal == "max" else "lower"
    seeds = max(len(row.runs) for row in standing.searches)
    means = f", means of {plural(seeds, 'seed')}" if seeds > 1 else ""
    table = Table(
        title=f"{standing.task}: {standing.metric.replace('_', ' ')} ({better} is better){means}",
        padding=(0, 0 if seeds > 1 else 1),  # all columns fit 80 columns of a terminal
    )
    table.add_column("space", min_width=12, overflow="fold")  # a folder is told by how its name ends
    table.add_column("found", min_width=13, overflow="fold")
    for heading in ("valid", "test", *(["±"] if seeds > 1 else []), "parameters", "time"):
        table.add_column(heading, justify="right")
    best = _best(standing)
    for row, following in zip(standing.rows, [*standing.rows[1:], None], strict=True):
        ends = following is not None and _part(following) != _part(row)
        style = "bold" if best is not None and mean(_judged(row)) == best else ""
        table.add_row(*_cells(row, seeds > 1), style=style, end_section=ends)
    # No caption: that of a table wider than the terminal is cut off with it, and a lost "no" says the opposite.
    return Group(table, Text("\n".join([verdict(standing), *(f"failed: {reason}" for reason in failed)])))


def _part(row: Row) -> str:
    return row.kind if row.kind in ("search", "network") else "predictor"


def _cells(row: Row, several: bool) -> list[str]:
    found = ", ".join(row.found) if row.kind == "search" else ""
    spread = [significant(_spread(_judged(row)), 2)] if several else []
    size = mean(row.parameters)
    figures = [significant(mean(row.valid)), significant(mean(row.test)), *spread]
    return [row.name, found, *figures, NOTHING if size is None else f"{size:,.0f}", duration(mean(row.seconds))]


def _spread(values: Sequence[float]) -> float | None:
    """The standard deviation of figures that are not all the same, as those of predictors are."""
    return statistics.stdev(values) if len(set(values)) > 1 else None


def _judged(row: Row) -> tuple[float, ...]:
    return row.test or row.valid


def _best(standing: Standing) -> float | None:
    metric = Metric(standing.metric, standing.goal)
    return metric.best(mean(_judged(row)) for row in standing.rows)


def write_comparison(folder: Path, standing: Standing, failed: Sequence[str] = ()) -> Path:
    """Write ``comparison.html`` into the folder of the runs."""
    path = folder / PAGE
    write_text(path, environment().get_template("comparison.html.j2").render(_view(folder, standing, failed)))
    return path


def _view(folder: Path, standing: Standing, failed: Sequence[str]) -> dict[str, Any]:
    best = _best(standing)
    return {
        "name": folder.resolve().name,
        "task": standing.task,
        "headline": verdict(standing),
        "metric": {"noun": metric_noun(standing.metric), "goal": standing.goal},
        "failed": failed,
        "several": any(len(row.runs) > 1 for row in standing.searches),
        "plot": _plot(standing),
        "rows": [
            {
                "name": row.name,
                "kind": _part(row),
                "found": row.found if row.kind == "search" else (),
                "links": [(Path(place).name, _address(place, folder)) for place in row.runs],
                "valid": _shown(row.valid, standing.metric),
                "test": _shown(row.test, standing.metric),
                "parameters": count(mean(row.parameters)),
                "seconds": duration(mean(row.seconds)),
                "best": best is not None and mean(_judged(row)) == best,
            }
            for row in standing.rows
        ],
        "first": shlex.quote(os.path.relpath(standing.searches[0].runs[0])),
    }


def _address(place: str, folder: Path) -> str:
    return quote(os.path.relpath(Path(place) / "report.html", folder))


def _shown(values: Sequence[float], metric: str) -> str:
    spread = _spread(values)
    return f"{score(metric, mean(values))}{'' if spread is None else f' ± {score(metric, spread)}'}"


def _plot(standing: Standing) -> Plot | None:
    """A dot for every seed of every search and of the networks beside it: test samples, else validation samples."""
    rows = [row for row in standing.rows if _part(row) != "predictor" and _judged(row)]
    predictors = [value for row in standing.rows if _part(row) == "predictor" for value in _judged(row)]
    metric = Metric(standing.metric, standing.goal)
    line, values = metric.best(predictors), [value for row in rows for value in _judged(row)]
    if not values:
        return None
    values = values if line is None else [*values, line]
    log = suits_log(values) and standing.goal == "min"

    def paint(figure: Figure) -> None:
        axes = panel(figure, _LEFT, _TOP, _WIDTH - _LEFT - 14, height - _TOP - _BOTTOM)
        for place, row in enumerate(rows):
            some, colour = _judged(row), SERIES[0] if row.kind == "search" else QUIET
            axes.plot([place] * len(some), some, "o", color=colour, markersize=7, markeredgecolor=PAPER, alpha=0.85)
            axes.plot([place - 0.25, place + 0.25], [statistics.fmean(some)] * 2, color=INK, linewidth=1.4)
        if line is not None:
            axes.axhline(line, color=QUIET, linewidth=1.0, dashes=(2, 2))
        scale_axis(axes, values, log, metric)
        axes.set_xlim(-0.6, len(rows) - 0.4)
        axes.set_xticks(range(len(rows)), [shortened(Path(row.name).name, 18) for row in rows])

    height = 5 * _STEP + _TOP + _BOTTOM
    return Plot(inline_svg(_WIDTH, height, paint, "Test figures of every run"), log)
