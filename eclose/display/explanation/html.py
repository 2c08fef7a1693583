"""What was found, for people: the sections of an explanation as HTML, for the page and for notebooks."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from eclose.display.explanation.drawing import draw
from eclose.display.explanation.drawing_down import draw_down
from eclose.display.samples import pictures
from eclose.display.samples.pictures import ColourScale
from eclose.display.sections.svg import DASHES, QUIET, SERIES, dashes, inline_svg, panel
from eclose.display.wording import number, share, shortened, whole
from eclose.plural import plural
from eclose.spaces.explanation import Cell, Drawing, Map, Picture, Plot, Section, Table

DRAWN, NARROW = 1040.0, 350.0  # pixels of a drawing on the page, and on a phone
_WIDTH, _HEIGHT = 330, 165
_CELL = 6  # pixels of a value


@functools.cache
def environment() -> Environment:
    """Templates of this package; what stands in files is text there and nothing else."""
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent.parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["dashes"] = dashes
    made.filters |= {"number": number, "plural": plural, "shortened": shortened}
    return made


@dataclass(frozen=True)
class ShownMap:
    """A map as an image; the mark is where, in per cent from the left and from the top."""

    title: str
    ends: str  # its smallest and its largest value
    image: pictures.Picture
    mark: tuple[float, float] | None


@dataclass(frozen=True)
class ShownPicture:
    """Plots as SVG, maps as images with their scale."""

    title: str
    sentences: tuple[str, ...]
    labels: list[str]  # of the lines of all plots
    plots: list[tuple[str, Markup]]
    maps: list[ShownMap]
    columns: int
    scale: ColourScale
    marked: bool  # whether a place is pointed at


@dataclass(frozen=True)
class ShownSection:
    """A section, ready for the template."""

    title: str
    sentences: tuple[str, ...]
    drawings: list[Markup]  # for a wide page and for a phone
    pictures: list[ShownPicture]
    table: list[list[tuple[str, str, bool]]]  # heading, text, whether it is a number
    note: str


def shown(sections: Sequence[Section]) -> list[ShownSection]:
    """Everything drawn."""
    return [
        ShownSection(
            section.title,
            section.sentences,
            _drawings(section.drawing, section.title) if section.drawing else [],
            [_picture(picture) for picture in section.pictures],
            list(_rows(section.table)) if section.table else [],
            section.table.note if section.table else "",
        )
        for section in sections
    ]


def as_fragment(sections: Sequence[Section]) -> str:
    """HTML for a notebook, which brings its own style."""
    return environment().get_template("explanation/alone.html.j2").render(sections=shown(sections))


def _drawings(drawing: Drawing, title: str) -> list[Markup]:
    return [Markup(draw(drawing, title, DRAWN)), Markup(draw_down(drawing, title, NARROW))]


def _rows(table: Table) -> Iterator[list[tuple[str, str, bool]]]:
    for row in table.rows:
        cells = zip(table.headings, row, strict=True)
        yield [
            (heading, cell_text(cell, heading in table.shares), not isinstance(cell, str)) for heading, cell in cells
        ]


def cell_text(cell: Cell, is_share: bool) -> str:
    """A cell as people read it."""
    if cell is None:
        return "–"
    if isinstance(cell, str):
        return cell
    if is_share:
        return "0 %" if abs(cell) < 5e-5 else share(cell) if cell < 1 else f"{100 * cell:,.0f} %"
    return whole(cell) if isinstance(cell, int) else number(cell)


def _picture(picture: Picture) -> ShownPicture:
    values = [value for plot in picture.plots for line in plot.lines for value in line.values]
    low, high = min([0.0, *values]), max([0.0, *values])
    labels = list(dict.fromkeys(line.label for plot in picture.plots for line in plot.lines))
    scale = _scale([value for one in picture.maps for row in one.values for value in row])
    return ShownPicture(
        picture.title,
        picture.sentences,
        labels,
        [(plot.title, _plot(plot, labels, low, high)) for plot in picture.plots],
        [_map(one, scale) for one in picture.maps],
        picture.columns,
        scale,
        any(mark is not None for mark in (*(plot.mark for plot in picture.plots), *(one.mark for one in picture.maps))),
    )


def _scale(values: Sequence[float]) -> ColourScale:
    """Of all maps of a picture: around zero where there are values on both sides of it."""
    most = max(map(abs, values), default=0.0) or 1.0
    signed = min(values, default=0.0) < 0
    return ColourScale(-most, most, "RdBu_r") if signed else ColourScale(0.0, most, "Reds")


def _plot(plot: Plot, labels: list[str], low: float, high: float) -> Markup:
    """Lines over their places; one height for all plots of a picture, so that they can be compared."""
    spread = 0.08 * (high - low) or 1.0

    def paint(figure: Figure) -> None:
        axes = panel(figure, 44, 8, _WIDTH - 54, _HEIGHT - 34)
        axes.axhline(0, color=QUIET, linewidth=0.8)
        if plot.mark is not None:
            axes.axvline(plot.mark, color=QUIET, linewidth=1, dashes=(1, 2))
        for line in plot.lines:
            colour = colour_of(labels, line.label)
            axes.plot(
                np.linspace(plot.first, plot.last, len(line.values)),
                line.values,
                color=SERIES[colour],
                linewidth=1.4 if colour else 2.0,
                dashes=DASHES[colour] or (None, None),
                marker="o" if len(line.values) == 1 else "",
            )
        axes.set_ylim(low - spread, high + spread)
        axes.set_xlim(plot.first - 0.5, plot.last + 0.5)
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))

    ends = [f"{line.label} from {number(min(line.values))} to {number(max(line.values))}" for line in plot.lines]
    return inline_svg(_WIDTH, _HEIGHT, paint, f"{plot.title}: {'; '.join(ends)}")


def colour_of(labels: Sequence[str], label: str) -> int:
    """The last label, what all others are compared with, has the first colour and no dashes."""
    return len(labels) - 1 - labels.index(label)


def _map(one: Map, scale: ColourScale) -> ShownMap:
    values = np.array(one.values)
    ends = f"{number(values.min())} to {number(values.max())}"
    mark = None
    if one.mark is not None:
        row, column = one.mark
        mark = (100 * (column + 0.5) / values.shape[1], 100 * (row + 0.5) / values.shape[0])
    return ShownMap(one.title, ends, scale.picture(_hatched(values), f"{one.title}: {ends}"), mark)


def _hatched(values: pictures.Values) -> pictures.Values:
    """Larger, and with stripes where values are below zero: their sign can be told without colours."""
    large = np.kron(values, np.ones((_CELL, _CELL)))
    row, column = np.indices(large.shape)
    return np.where((large < 0) & ((row + column) % 3 == 0), 0.4 * large, large)
