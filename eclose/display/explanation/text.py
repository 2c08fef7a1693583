"""What was found, as text for terminals: drawings become lists of steps, lines become bars."""

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table as TextTable
from rich.text import Text

from eclose.display.explanation.html import cell_text
from eclose.spaces.explanation import Drawing, Line, Picture, Section, Table

BARS = "▁▂▃▄▅▆▇█"
COLUMNS = 48  # of a line, at most
NARROW = 72  # columns of a terminal, below which a table of many columns is told row by row
_FEW = 3  # columns that fit any terminal


def explanation_text(sections: Sequence[Section]) -> Group:
    """Sentences, then drawing and pictures, then the table, of every section."""
    parts: list[RenderableType] = []
    for place, section in enumerate(sections):
        parts += [Text("\n" * (place > 0) + section.title, "bold"), *map(Text, section.sentences)]
        if section.drawing:
            parts.append(Text("\n".join(["", *_steps(section.drawing)])))
        parts += [_Bars(picture) for picture in section.pictures if picture.plots]
        if maps := sum(bool(picture.maps) for picture in section.pictures):
            parts.append(Text(f"\n({'A picture' if maps == 1 else f'{maps} pictures'} of it: see the report.)", "dim"))
        if section.table:
            parts += [Text(), _Figures(section.table), Text(section.table.note, "dim")]
    return Group(*parts)


class _Bars:
    """A picture, its lines as long as the terminal allows."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("\n".join(["", *_bars(self.picture, options.max_width)]))


class _Figures:
    """A table, or its rows one by one."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if options.max_width >= NARROW or len(self.table.headings) <= _FEW:
            yield _table(self.table)
            return
        (first, *headings), shares = self.table.headings, self.table.shares
        for name, *cells in self.table.rows:
            yield Text(f"{first} {cell_text(name, first in shares)}")
            told = [
                f"{heading} {cell_text(cell, heading in shares)}" for heading, cell in zip(headings, cells, strict=True)
            ]
            yield Padding(Text(", ".join(told)), (0, 0, 0, 2))


def _table(table: Table) -> TextTable:
    shown = TextTable(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    numeric = [any(isinstance(row[place], (int, float)) for row in table.rows) for place in range(len(table.headings))]
    for heading, right in zip(table.headings, numeric, strict=True):
        shown.add_column(heading, justify="right" if right else "left", overflow="fold")
    for row in table.rows:
        cells = zip(table.headings, row, strict=True)
        shown.add_row(*(cell_text(cell, heading in table.shares) for heading, cell in cells))
    return shown


def _steps(drawing: Drawing) -> Iterator[str]:
    """One line a node, branches indented; what is marked has a plus before it."""
    for node in drawing.nodes:
        detail = f" ({node.detail})" if node.detail else ""
        yield f"{'+' if node.mark else ' '} {'  ' * max(0, min(node.lane, 20))}{node.label}{detail}"
    for meaning in drawing.marks.values():
        yield f"(+ {meaning})"


def _bars(picture: Picture, room: int) -> Iterator[str]:
    """Every line as a row of bars, on one scale for the whole picture."""
    lines = [(plot.title, line) for plot in picture.plots for line in plot.lines]
    values = [value for _, line in lines for value in line.values]
    low, high = min([0.0, *values]), max([0.0, *values])
    yield picture.title
    yield from picture.sentences
    width = max(len(line.label) for _, line in lines)
    for plot in picture.plots:
        yield f"{plot.title}:"
        for line in plot.lines:
            columns = max(1, min(COLUMNS, room - width - 3))
            yield f"  {line.label:{width}} {_row(line, low, (high - low) or 1.0, columns)}"
    yield f"(bars from {low:.2g} to {high:.2g})"


def _row(line: Line, low: float, span: float, columns: int) -> str:
    """The value that is farthest from zero of every stretch."""
    step = -(-len(line.values) // columns)
    stretches = [line.values[first : first + step] for first in range(0, len(line.values), step)]
    heights = [(max(stretch, key=abs) - low) / span for stretch in stretches]
    return "".join(BARS[min(len(BARS) - 1, int(height * len(BARS)))] for height in heights)
