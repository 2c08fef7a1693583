"""The front of a search with several objectives: the trials that no other beats in all of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from eclose.display.networks import Metric
from eclose.display.sections.plots import Plot, drawable, scale_axis, suits_log
from eclose.display.sections.rows import Row, columns_of, figure_text, trial_rows
from eclose.display.sections.svg import INK, QUIET, SERIES, inline_svg, panel
from eclose.engine.selection import front
from eclose.runs import OBJECTIVES, Figure, Trial

_WIDTH, _HEIGHT = 500, 250


@dataclass(frozen=True)
class Front:
    """Its members as a table, and one plot for every objective beside the error."""

    columns: list[Figure]
    rows: list[Row]
    plots: list[tuple[str, Plot]]


def front_of(trials: Sequence[Trial], objectives: Sequence[str], metric: Metric, chosen: int | None) -> Front | None:
    """The front of the trials of a search; None where there is one objective only, or nothing yet."""
    if len(objectives) < 2 or metric.goal not in ("max", "min"):
        return None
    members = front(trials, "max" if metric.goal == "max" else "min", objectives)
    members = [trial for trial in members if drawable(trial.valid)]
    if not members:
        return None
    columns = [figure for figure in columns_of(members) if figure.objective in objectives]
    others = [OBJECTIVES[name] for name in objectives if name != "error"]
    line = "-" if len(others) == 1 else ""  # a front of three objectives is no line in a plane of two
    plots = [(figure.page, _plot(trials, members, figure, metric, chosen, line)) for figure in others]
    rows = {row.number: row for row in trial_rows(trials, metric, columns, chosen)}
    return Front(columns, [rows[trial.number] for trial in members], plots)


def _plot(
    trials: Sequence[Trial], members: Sequence[Trial], figure: Figure, metric: Metric, chosen: int | None, line: str
) -> Plot:
    def at(some: Sequence[Trial]) -> tuple[list[float], list[float]]:
        shown = [trial for trial in some if drawable(trial.valid) and drawable(getattr(trial, figure.name))]
        shown.sort(key=lambda trial: getattr(trial, figure.name))
        return [getattr(trial, figure.name) for trial in shown], [trial.valid or 0.0 for trial in shown]

    sizes, values = at(trials)
    log = suits_log(values) and metric.goal == "min"

    def paint(canvas: Canvas) -> None:
        axes = panel(canvas, 48, 10, _WIDTH - 48 - 14, _HEIGHT - 10 - 34)
        axes.plot(sizes, values, "o", color=QUIET, markersize=4, alpha=0.6)
        axes.plot(*at(members), f"o{line}", color=SERIES[0], markersize=6, linewidth=1.2)
        axes.plot(*at([t for t in members if t.number == chosen]), "o", color=SERIES[0], markeredgecolor=INK, ms=9)
        scale_axis(axes, values, log, metric)
        if suits_log(sizes):
            axes.set_xscale("log")
            axes.xaxis.set_minor_locator(NullLocator())
        else:
            axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: figure_text(figure, value, metric)))
        axes.set_xlabel(figure.page, color=QUIET)

    return Plot(inline_svg(_WIDTH, _HEIGHT, paint, f"Validation metric by {figure.page}"), log)
