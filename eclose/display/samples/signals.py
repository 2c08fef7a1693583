"""Samples along one axis, drawn as lines."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from eclose.display.samples.pictures import Values
from eclose.display.sections.svg import DASHES, INK, QUIET, SERIES, inline_svg, panel

CHANNELS = 12  # traces of one input
OUTPUTS = 3  # output channels of one sample
CARD_WIDTH = 360
STRIP_WIDTH, STRIP_LEFT, STRIP_RIGHT = 500, 46, 8  # page.css sets the strips under a drawing by these
_WIDTH, _LEFT, _RIGHT = 500, 52, 12
_POINTS = 1024  # of a line; more are thinned to the lows and highs of short stretches


@dataclass(frozen=True)
class Answer:
    """What one network made of one sample."""

    label: str
    colour: int
    values: Values


def draw_input(x: Values, title: str, width: float = CARD_WIDTH) -> Markup:  # (channels, length)
    """The channels of an input, one above the other, each on its own scale; a single one with its values."""
    channels = x[:CHANNELS]
    several = len(channels) > 1
    height = 16 * len(channels) + 44 if several else 116
    # Numbers of channels are narrow; a drawing over strips keeps the strips' margin.
    left = 24 if several and width == CARD_WIDTH else STRIP_LEFT

    def paint(figure: Figure) -> None:
        axes = panel(figure, left, 8, width - left - STRIP_RIGHT, height)
        _stack(axes, channels) if several else _single(axes, channels[0])
        _positions(axes, x.shape[-1])

    return inline_svg(width, height + 34, paint, title)


def draw_dense(x: Values | None, y: Values, answers: Sequence[Answer], title: str) -> Markup:
    """Input (channels, length), target (outputs, length) with the answers on it, and their errors."""
    outputs = min(len(y), OUTPUTS)
    panels = [("input", 74)] if x is not None else []
    for number in range(outputs):
        which = f" {number + 1}" if len(y) > 1 else ""
        panels.append((f"target{which} and predictions", 130))
        if answers:
            panels.append((f"prediction − target{which}", 74))
    height = sum(high + 26 for _, high in panels) + 22

    def paint(figure: Figure) -> None:
        top, axes = 0.0, []
        for caption, high in panels:
            axes.append(panel(figure, _LEFT, top + 20, _WIDTH - _LEFT - _RIGHT, high))
            axes[-1].set_title(caption, loc="left", fontsize=11, color=QUIET, pad=5)
            axes[-1].tick_params(labelbottom=False)
            axes[-1].yaxis.set_major_locator(MaxNLocator(3 if high < 100 else 5))
            top += high + 26
        rest = list(axes)
        if x is not None:
            _inputs(rest.pop(0), x)
        for number in range(outputs):
            _targets(rest.pop(0), y[number], answers, number)
            if answers:
                _errors(rest.pop(0), y[number], answers, number)
        for each in axes:
            _positions(each, y.shape[-1])
        axes[-1].tick_params(labelbottom=True)

    return inline_svg(_WIDTH, height, paint, title)


def _single(axes: Axes, values: Values) -> None:
    _trace(axes, values, color=INK, linewidth=1.2)
    axes.yaxis.set_major_locator(MaxNLocator(4))


def _stack(axes: Axes, channels: Values) -> None:
    places = [-1.25 * number for number in range(len(channels))]
    for place, values in zip(places, channels, strict=True):
        _trace(axes, _unit(values) + place, color=INK, linewidth=0.9)
    axes.set_yticks(places, [str(number) for number in range(1, len(channels) + 1)])
    axes.grid(visible=False)
    axes.set_ylim(places[-1] - 0.7, 0.7)


def _inputs(axes: Axes, x: Values) -> None:
    for values, style in zip(x[:OUTPUTS], ("-", "--", ":"), strict=False):
        _trace(axes, values, color=QUIET, linewidth=1.2, linestyle=style)


def _targets(axes: Axes, y: Values, answers: Sequence[Answer], number: int) -> None:
    _trace(axes, y, color=INK, linewidth=3.4, alpha=0.3)
    for answer in reversed(answers):
        _answer(axes, answer, answer.values[number])
    _limit(axes, 3 * _size(y))


def _errors(axes: Axes, y: Values, answers: Sequence[Answer], number: int) -> None:
    axes.axhline(0, color=QUIET, linewidth=0.8)
    for answer in reversed(answers):
        _answer(axes, answer, answer.values[number] - y)
    _limit(axes, 2 * _size(y))


def _size(y: Values) -> float:
    return float(np.abs(y[np.isfinite(y)]).max(initial=0.0))


def _limit(axes: Axes, most: float) -> None:
    """Cut the axis off at ``most``: a prediction that went wild must not flatten all other lines."""
    low, high = axes.get_ylim()
    if most and (low < -most or high > most):
        axes.set_ylim(max(low, -most), min(high, most))


def _answer(axes: Axes, answer: Answer, values: Values) -> None:
    width = 1.7 if answer.colour == 0 else 1.3
    dashes = DASHES[answer.colour] or (None, None)
    _trace(axes, values, color=SERIES[answer.colour], linewidth=width, dashes=dashes)


def _trace(axes: Axes, values: Values, **style: object) -> None:
    place, values = _thinned(values)
    if len(values) == 1:
        style = {**style, "marker": "o"}
    axes.plot(place, values, **style)  # type: ignore[arg-type]


def _thinned(values: Values) -> tuple[Values, Values]:
    values = np.where(np.isfinite(values), values, np.nan)
    place = np.arange(len(values), dtype=np.float64)
    if len(values) <= _POINTS:
        return place, values
    stretch = -(-2 * len(values) // _POINTS)
    ends = np.arange(0, len(values), stretch)
    lows, highs = np.fmin.reduceat(values, ends), np.fmax.reduceat(values, ends)
    return np.repeat(place[ends], 2), np.stack([lows, highs], 1).reshape(-1)


def _unit(values: Values) -> Values:
    """The values moved and scaled into [-0.5, 0.5]."""
    known = values[np.isfinite(values)]
    if known.size == 0:
        return values
    low, high = known.min(), known.max()
    return (values - (low + high) / 2) / ((high - low) or 1.0)


def _positions(axes: Axes, length: int) -> None:
    axes.set_xlim((0, length - 1) if length > 1 else (-0.5, 0.5))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
