"""What a search found, as plain data: sections of sentences, pictures, a drawing and a table.

Every space explains its networks by ``explain(genotype, network) -> list[Section]``. The page, ``result.json``, the
command line and Python all show these sections; ``eclose.display`` draws them. Explanations are read back from files,
which may come from anybody, so that :func:`sections_from` takes nothing on trust.
"""

import sys
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

Cell = str | int | float | None

MOST_NODES = 400  # of a drawing: a larger one can be neither drawn nor read
MOST_ROWS = 100  # of a table
MOST_VALUES = 2**16  # numbers and words of all sections that are read from a file


@dataclass(frozen=True)
class Table:
    """Rows under headings, equally long. ``shares`` are headings whose numbers are parts of a whole."""

    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    shares: tuple[str, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        _need(all(len(row) == len(self.headings) for row in self.rows), "a row that is not as long as the headings")
        _need(len(self.rows) <= MOST_ROWS, f"a table of more than {MOST_ROWS} rows")


@dataclass(frozen=True)
class Node:
    """One part of a network. Data flows from lower to higher layers; parts of one layer lie in different lanes."""

    id: str
    label: str
    kind: str
    layer: int
    lane: int = 0
    detail: str = ""  # a second, smaller line
    mark: str = ""  # what is special about it


@dataclass(frozen=True)
class Edge:
    """What flows from one node to another, by their ids."""

    source: str
    target: str
    kind: str
    label: str = ""


@dataclass(frozen=True)
class Drawing:
    """A network as a graph; every kind of node and edge and every mark is explained, for the legend."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    node_kinds: dict[str, str]  # kind: what it means
    edge_kinds: dict[str, str]
    marks: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        place = {node.id: node.layer for node in self.nodes}
        _need(1 <= len(self.nodes) <= MOST_NODES, f"a drawing of no node, or of more than {MOST_NODES}")
        _need(len(self.edges) <= 4 * MOST_NODES, f"a drawing of more than {4 * MOST_NODES} edges")
        _need(len(place) == len(self.nodes), "two nodes of one id")
        _need(len({(node.layer, node.lane) for node in self.nodes}) == len(place), "two nodes in one place")
        _need(all({edge.source, edge.target} <= place.keys() for edge in self.edges), "an edge without its node")
        _need(all(place[edge.source] < place[edge.target] for edge in self.edges), "an edge that goes back")
        _need({node.kind for node in self.nodes} <= self.node_kinds.keys(), "a kind of node that is not explained")
        _need({edge.kind for edge in self.edges} <= self.edge_kinds.keys(), "a kind of edge that is not explained")
        _need({node.mark for node in self.nodes} <= {"", *self.marks}, "a mark that is not explained")


@dataclass(frozen=True)
class Line:
    """Values at places that are equally far apart."""

    label: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class Plot:
    """Lines over the same places, ``first`` to ``last``; ``mark`` is a place to point at."""

    title: str
    lines: tuple[Line, ...]
    first: float
    last: float
    mark: float | None = None

    def __post_init__(self) -> None:
        _need(bool(self.lines) and all(line.values for line in self.lines), "a plot without values")


@dataclass(frozen=True)
class Map:
    """Values over two axes, rows from top to bottom; ``mark`` is a row and a column to point at."""

    title: str
    values: tuple[tuple[float, ...], ...]
    mark: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        _need(bool(self.values) and bool(self.values[0]), "a map without values")
        _need(len({len(row) for row in self.values}) == 1, "a map whose rows are not equally long")


@dataclass(frozen=True)
class Picture:
    """Plots or maps that belong together and share one scale. Plots share their labels; maps lie in ``columns``."""

    title: str
    sentences: tuple[str, ...] = ()
    plots: tuple[Plot, ...] = ()
    maps: tuple[Map, ...] = ()
    columns: int = 1


@dataclass(frozen=True)
class Section:
    """One thing to say, under a title."""

    title: str
    sentences: tuple[str, ...] = ()
    table: Table | None = None
    drawing: Drawing | None = None
    pictures: tuple[Picture, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)


def sections_from(data: Any) -> list[Section]:
    """Inverse of :meth:`Section.as_dict`, of a list of them; a ``ValueError`` says what is wrong with other data."""
    _need(isinstance(data, list), "it is no list")
    _need(_size(data) <= MOST_VALUES, f"it has more than {MOST_VALUES} values")
    return [_read(Section, section) for section in data]


def _need(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)


def _size(data: Any) -> int:
    if isinstance(data, dict):
        return sum(1 + _size(value) for value in data.values())
    return sum(map(_size, data)) if isinstance(data, list) else 1


def _read(kind: Any, data: Any) -> Any:
    """A value of the type ``kind`` from what JSON made of it."""
    options, inner = get_args(kind), get_origin(kind)
    if is_dataclass(kind) and isinstance(data, dict):
        return _read_fields(kind, data)
    if inner in (Union, UnionType):
        for option in options:
            if _is_a(option, data):
                return _read(option, data)
    elif inner is tuple and isinstance(data, list):
        kinds = [options[0]] * len(data) if options[-1] is Ellipsis else options
        _need(len(kinds) == len(data), f"{len(data)} values in place of {len(kinds)}")
        return tuple(_read(each, value) for each, value in zip(kinds, data, strict=True))
    elif inner is dict and isinstance(data, dict):
        return {key: _read(options[1], value) for key, value in data.items()}
    elif _is_a(kind, data):
        return data
    raise ValueError(f"{str(data)[:40]!r} is no {getattr(kind, '__name__', kind)}")


def _read_fields(kind: Any, data: dict[str, Any]) -> Any:
    hints = get_type_hints(kind)
    needed = {each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING}
    if missing := sorted(needed - data.keys()):
        raise ValueError(f"'{missing[0]}' is missing in a {kind.__name__.lower()}")
    return kind(**{name: _read(hints[name], data[name]) for name in hints if name in data})


def _is_a(kind: Any, data: Any) -> bool:
    """Whether data may be of a type; numbers must be finite, and true is none."""
    if isinstance(data, bool):
        return False
    if kind in (int, float):
        return isinstance(data, (int, kind)) and abs(data) <= sys.float_info.max
    if kind is type(None) or kind is str:
        return isinstance(data, kind)
    return isinstance(data, list if get_origin(kind) is tuple else dict)


def rounded(values: Sequence[float], digits: int = 3) -> tuple[float, ...]:
    """Significant digits that a picture shows."""
    return tuple(float(f"{value:.{digits}g}") for value in values)
