"""What a search found, as plain data: sections of sentences, a table and a drawing.

Every space may explain its networks by ``explain(genotype, network) -> list[Section]``. The page, ``result.json`` and
the command line all show these sections; ``eclose.display.drawing`` draws.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

Cell = str | int | float | None


@dataclass(frozen=True)
class Table:
    """Rows under headings, equally long."""

    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


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
        ids = {node.id for node in self.nodes}
        assert len(ids) == len(self.nodes), "two nodes of one id"
        assert all(edge.source in ids and edge.target in ids for edge in self.edges), "an edge without its node"
        assert {node.kind for node in self.nodes} <= self.node_kinds.keys(), "a kind of node that is not explained"
        assert {edge.kind for edge in self.edges} <= self.edge_kinds.keys(), "a kind of edge that is not explained"
        assert {node.mark for node in self.nodes} <= {"", *self.marks}, "a mark that is not explained"


@dataclass(frozen=True)
class Section:
    """One thing to say, under a title."""

    title: str
    sentences: tuple[str, ...] = ()
    table: Table | None = None
    drawing: Drawing | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)
