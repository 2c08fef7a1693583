"""Plots of a run: loss and metric over the epochs, the learning rate, the trials of a search."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from eclose.display.networks import GREY, Metric, Network
from eclose.display.sections.svg import DASHES, INK, PAPER, QUIET, SERIES, inline_svg, panel
from eclose.display.wording import SHARES, finite
from eclose.runs import Trial

_WIDTH, _HEIGHT = 500, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 14, 10, 34
_TICKS = 6
_HUGE = 1e100  # beyond it a value says no more than that a training broke


@dataclass(frozen=True)
class Plot:
    """A drawing and whether its vertical axis is logarithmic, which its caption must say."""

    svg: Markup
    log: bool = False


@dataclass(frozen=True)
class _Line:
    colour: int
    x: list[float]
    y: list[float]
    mark: float | None = None  # the value to dot


def loss_plot(networks: Sequence[Network], others: Sequence[Trial]) -> Plot | None:
    """Training loss over the epochs."""
    return _history_plot(networks, others, "train_loss", None, "Training loss over the epochs")


def valid_plot(networks: Sequence[Network], others: Sequence[Trial], metric: Metric) -> Plot | None:
    """Metric on the validation set over the epochs, a dot at the best one."""
    return _history_plot(networks, others, "valid", metric, "Validation metric over the epochs")


def attention_plot(networks: Sequence[Network], others: Sequence[Trial]) -> Plot | None:
    """Distance from the attention of a teacher over the epochs, where there is one."""
    return _history_plot(networks, others, "attention", None, "Distance from the teacher over the epochs", least=2)


def complexity_plot(networks: Sequence[Network], others: Sequence[Trial]) -> Plot | None:
    """What networks cost over the epochs, where their sizes are learned."""
    return _history_plot(networks, others, "complexity", None, "Cost in units of the target over the epochs", least=2)


def rate_plot(networks: Sequence[Network], base: float) -> Plot | None:
    """Learning rate over the epochs, as a strip; ``base`` is the rate that the schedule scales."""
    lines = [_line(network.colour, network.trial, "rate", None) for network in networks]
    lines = [_Line(line.colour, line.x, [base * y for y in line.y]) for line in lines if line.x]
    longest = max(lines, key=lambda line: len(line.x), default=None)
    if longest is None:
        return None
    # The networks of a run share their settings: one line says it all unless one of them differs.
    same = all(line.y == longest.y[: len(line.y)] for line in lines)
    drawn = [_Line(GREY, longest.x, longest.y)] if same else lines

    def paint(figure: Figure) -> None:
        axes = panel(figure, _LEFT, 6, _WIDTH - _LEFT - _RIGHT, 44)
        _draw(axes, drawn)
        axes.set_ylim(0, 1.1 * max(max(line.y) for line in drawn) or 1)
        axes.yaxis.set_major_locator(FixedLocator([0, max(max(line.y) for line in drawn)]))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.2g}"))
        _epoch_axis(axes, drawn)

    return Plot(inline_svg(_WIDTH, 84, paint, "Learning rate over the epochs"))


def trials_plot(trials: Sequence[Trial], chosen: int | None, metric: Metric) -> Plot | None:
    """Validation metric by trial, with the best so far as a line.

    Trials that were stopped early are open dots, failed ones crosses at the foot.
    """
    points = [(trial.number, trial) for trial in trials if drawable(trial.valid)]
    if not points:
        return None
    values = [float(trial.valid or 0.0) for _, trial in points]
    best = [metric.best(values[: end + 1]) for end in range(len(values))]
    failed = [trial.number for trial in trials if trial.state == "failed"]
    ring = [(place, float(trial.valid or 0.0)) for place, trial in points if trial.number == chosen]
    log = suits_log(values) and metric.goal != "max"

    def paint(figure: Figure) -> None:
        axes = panel(figure, _LEFT, _TOP, _WIDTH - _LEFT - _RIGHT, 190)
        places = [place for place, _ in points]
        if metric.goal:
            axes.step(places, [b or 0.0 for b in best], where="post", color=SERIES[0], linewidth=1.4)
        for early, fill in ((False, QUIET), (True, PAPER)):
            shown = [place for place, (_, trial) in enumerate(points) if bool(trial.reason) == early]
            dots = [places[n] for n in shown], [values[n] for n in shown]
            axes.plot(*dots, "o", color=QUIET, markerfacecolor=fill, markersize=4.5)
        for x, y in ring:
            axes.plot([x], [y], "o", color=SERIES[0], markersize=9, markeredgecolor=INK, markeredgewidth=1.2)
        foot = axes.get_xaxis_transform()
        axes.plot(failed, [0.03] * len(failed), "x", color=INK, markersize=6, transform=foot, clip_on=False)
        scale_axis(axes, values, log, metric)
        axes.set_xlim(trials[0].number - 0.5, trials[-1].number + 0.5)
        axes.xaxis.set_major_locator(MaxNLocator(10, integer=True, min_n_ticks=1))
        axes.set_xlabel("trial", color=QUIET)

    return Plot(inline_svg(_WIDTH, 240, paint, "Validation metric by trial"), log)


def _history_plot(
    networks: Sequence[Network], others: Sequence[Trial], key: str, metric: Metric | None, title: str, least: int = 1
) -> Plot | None:
    """None unless a training has at least so many points to show."""
    lines = [_line(GREY, trial, key, None) for trial in others]
    # The found network is drawn last, over the others.
    lines += [_line(network.colour, network.trial, key, metric) for network in reversed(networks)]
    lines = [line for line in lines if line.x]
    if max((len(line.x) for line in lines), default=0) < least:
        return None
    values = [y for line in lines for y in line.y]
    log = suits_log(values) and (metric is None or metric.goal == "min")

    def paint(figure: Figure) -> None:
        axes = panel(figure, _LEFT, _TOP, _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM)
        _draw(axes, lines)
        scale_axis(axes, values, log, metric)
        _epoch_axis(axes, lines)
        axes.set_xlabel("epoch", color=QUIET)

    return Plot(inline_svg(_WIDTH, _HEIGHT, paint, title), log)


def _line(colour: int, trial: Trial, key: str, metric: Metric | None) -> _Line:
    entries = [entry for entry in trial.history if drawable(entry.get(key)) and drawable(entry.get("epoch"))]
    values = [float(entry[key]) for entry in entries]
    mark = metric.best(values) if metric else None
    return _Line(colour, [float(entry["epoch"]) for entry in entries], values, mark)


def drawable(value: Any) -> bool:
    """Whether a value has a place in a plot."""
    return finite(value) and abs(value) < _HUGE


def _draw(axes: Axes, lines: Sequence[_Line]) -> None:
    for line in lines:
        faint = line.colour == GREY and len(lines) > 1
        axes.plot(
            line.x,
            line.y,
            color=SERIES[line.colour],
            linewidth=2.2 if line.colour == 0 else 1.0 if faint else 1.6,
            alpha=0.45 if faint else 1.0,
            dashes=DASHES[line.colour] or (None, None),
            marker="o" if len(line.x) == 1 else "",
            markersize=5,
            dash_capstyle="butt",
        )
        if line.mark is not None and len(line.x) > 1 and line.colour != GREY:
            x = line.x[line.y.index(line.mark)]
            axes.plot(
                [x],
                [line.mark],
                "o",
                color=SERIES[line.colour],
                markersize=6.5,
                markeredgecolor=PAPER,
                markeredgewidth=1.2,
                clip_on=False,
                zorder=3,
            )


def _epoch_axis(axes: Axes, lines: Sequence[_Line]) -> None:
    first, last = min(min(line.x) for line in lines), max(max(line.x) for line in lines)
    spread = 0.02 * (last - first) or 0.5
    axes.set_xlim(first - spread, last + spread)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))


def suits_log(values: Sequence[float]) -> bool:
    """Whether values differ by so much that a linear axis would hide the small ones."""
    return min(values) > 1 / _HUGE and max(values) / min(values) > 8


def scale_axis(axes: Axes, values: Sequence[float], log: bool, metric: Metric | None) -> None:
    """Limits and ticks of the vertical axis."""
    low, high = min(values), max(values)
    if not log:
        spread = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
        axes.set_ylim(low - spread, high + spread)
        axes.yaxis.set_major_locator(MaxNLocator(_TICKS - 1))
        if metric and metric.name in SHARES:
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g} %"))
        return
    spread = (high / low) ** 0.05
    axes.set_yscale("log")
    axes.set_ylim(low / spread, high * spread)
    axes.yaxis.set_major_locator(FixedLocator(_log_ticks(low, high)))
    axes.yaxis.set_minor_locator(NullLocator())
    percent = metric is not None and metric.name in SHARES
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{_tick(100 * v)} %" if percent else _tick(v)))


def _log_ticks(low: float, high: float) -> list[float]:
    """Few round numbers between ``low`` and ``high``: 1, 2, 5 in each power of ten, or powers of ten."""
    start, end = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for digits in ((1, 2, 5), (1, 3), (1,)):
        ticks = [digit * 10.0**power for power in range(start, end + 1) for digit in digits]
        ticks = [tick for tick in ticks if low * 0.95 <= tick <= high * 1.05]
        if len(ticks) <= _TICKS:
            return ticks
    return ticks[:: math.ceil(len(ticks) / _TICKS)]


def _tick(value: float) -> str:
    text = f"{value:g}"
    digits, _, power = text.partition("e")
    return f"{digits}e{int(power)}" if power else text
