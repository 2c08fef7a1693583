"""What a search for cells found: the cells as drawings (Figure 4 of the paper), and how clear their choices were."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from eclose.plural import plural
from eclose.spaces.explanation import Cell as TableCell
from eclose.spaces.explanation import Drawing, Edge, Line, Node, Picture, Plot, Section, Table
from eclose.spaces.nos.block import BlockChoice
from eclose.spaces.nos.layout import KINDS
from eclose.spaces.nos.operations import ATTENTION, DYNAMIC, FEATURE, OPERATIONS

_CLOSE = 0.1  # a lead of less than this part of a weight is a close call
_ROUNDED = 0.02  # more than what rounded weights lack of one
_NOTHING = "none (zeros)"  # of an edge: what no operation has
_SHOWN = 5  # operations with a line of their own, and close calls with a sentence
_READ, _NODE, _END = "read", "node", "end"
_NODE_KINDS = {
    _END: "a cell before, and the output",
    FEATURE: "gives features",
    ATTENTION: "gives attention",
    DYNAMIC: "gives kernels",
    _NODE: "node: features, calibrated",
}
_EDGE_KINDS = {
    _READ: "features that are read",
    FEATURE: "features, added up",
    ATTENTION: "attention, by which features are multiplied",
    DYNAMIC: "kernels, with which features are convolved",
}
_TOLD = {FEATURE: "features", ATTENTION: "attention", DYNAMIC: "kernels"}
_INPUTS = ("cell before last", "last cell")


def explain_cells(
    cells: Mapping[str, Sequence[BlockChoice]], names: Sequence[str], shares: Any = None, history: Any = None
) -> list[Section]:
    """A section a cell, and one on the weights of a search, edge by edge (``shares``) and by epoch (``history``)."""
    sections = [Section(f"The {kind} cell", _sentences(cells[kind]), drawing=draw_cell(cells[kind])) for kind in KINDS]
    known = shares if isinstance(shares, Mapping) else {}
    weighed = {kind: _edges(cells[kind], names, known.get(kind)) for kind in KINDS}
    rows = [(kind, *row) for kind, own in weighed.items() for row in own]
    pictures = _pictures(names, history or {})
    if rows or pictures:
        table = Table(_HEADINGS, tuple(_row(*row) for row in rows), ("share", "its share")) if rows else None
        sections.append(Section("How clear the choices were", _close_calls(rows), table, pictures=pictures))
    return sections


def _sentences(blocks: Sequence[BlockChoice]) -> tuple[str, ...]:
    own = [name for block in blocks for name in (*(name for _, name in block.first), block.second) if name]
    kinds = Counter(OPERATIONS[name].kind for name in own)
    told = ", ".join(f"{kinds[kind]} for {_TOLD[kind]}" for kind in _TOLD if kinds[kind])
    most, times = Counter(own).most_common(1)[0]
    return (
        f"It has {plural(len(blocks), 'block')} of {plural(len(own), 'operation')}: {told}.",
        f"Most frequent is {OPERATIONS[most].words} ({times} of {len(own)}).",
    )


class _Painter:
    """Nodes and edges so far; each block has two lanes of its own, so that no edge passes behind a node."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.edges: list[Edge] = []

    def add(self, name: str, label: str, kind: str, lane: int, reads: Sequence[tuple[str, str]] = ()) -> str:
        """A node behind all that it reads: names of nodes with the kind of the edge from them."""
        layer = 1 + max((self.nodes[source].layer for source, _ in reads), default=-1)
        self.nodes[name] = Node(name, label, kind, layer, lane)
        self.edges += [Edge(source, name, flow) for source, flow in reads]
        return name

    def operation(self, name: str, operation: str, lane: int, source: str) -> tuple[str, str]:
        """The node of an operation, and what it gives."""
        kind = OPERATIONS[operation].kind
        return self.add(name, operation, kind, lane, [(source, _READ)]), kind


def draw_cell(blocks: Sequence[BlockChoice]) -> Drawing:
    """Operations by their kinds: three shapes, and behind them three edges that differ in colour and dash."""
    painter = _Painter()
    nodes = [painter.add(f"in{place}", label, _END, place) for place, label in enumerate(_INPUTS)]
    for number, block in enumerate(blocks):
        lane = 2 * number
        given = [
            painter.operation(f"{number}.{place}", name, lane + place, nodes[source])
            for place, (source, name) in enumerate(block.first)
        ]
        node = painter.add(f"s{number}", f"s{number + 1}" if block.second else f"{number + 1}", _NODE, lane, given)
        if block.second is not None:
            second = painter.operation(f"{number}.then", block.second, lane, node)
            calibrates = [] if second[1] == FEATURE else [(node, _READ)]
            node = painter.add(f"n{number}", f"{number + 1}", _NODE, lane, [*calibrates, second])
        nodes.append(node)
    painter.add("out", "output", _END, 0, [(node, _READ) for node in nodes[len(_INPUTS) :]])
    return Drawing(tuple(painter.nodes.values()), tuple(painter.edges), _NODE_KINDS, _EDGE_KINDS)


_HEADINGS = ("cell", "block", "tier", "reads", "operation", "share", "next", "its share")
Weighed = tuple[int, int, int, str, float, str, float]  # block, tier, source, operation, weight, next, its weight


def _edges(blocks: Sequence[BlockChoice], names: Sequence[str], shares: Any) -> list[Weighed]:
    """Every kept operation beside the strongest other one of its edge.

    None where the weights do not fit the cell, and none of an operation that had no other one beside it: somebody may
    have put it into the file.
    """
    edges = sum(2 + number for number in range(len(blocks)))
    tiers = 2 if blocks[0].second is not None else 1
    if len(names) < 2 or not _is_matrix(shares, edges + (tiers - 1) * len(blocks), len(names)):
        return []
    found, start = [], 0
    for number, block in enumerate(blocks):
        places = [(1, source, name, start + source) for source, name in block.first]
        if block.second is not None and tiers == 2:
            places.append((2, -1, block.second, edges + number))
        for tier, source, name, row in places:
            if name in names:
                found.append((number, tier, source, *_beside(name, names, shares[row])))
        start += 2 + number
    return found


def _beside(name: str, names: Sequence[str], row: Sequence[float]) -> tuple[str, float, str, float]:
    weights = dict(zip(names, row, strict=True))
    others = {other: weight for other, weight in weights.items() if other != name}
    other = max(others, key=others.__getitem__)
    return name, float(weights[name]), other, float(others[other])


def _close_calls(rows: Sequence[tuple[str, int, int, int, str, float, str, float]]) -> tuple[str, ...]:
    if not rows:
        return ()
    close = [row for row in rows if row[5] - row[7] < _CLOSE * row[5]]
    told = (
        f"In {len(close)} of {plural(len(rows), 'place')} another operation of the same edge had almost as much weight"
    )
    limit = f"(a lead of less than {100 * _CLOSE:.0f} % of it, or none: a rule took its place)"
    nearest = sorted(close, key=lambda row: row[5] - row[7])[:_SHOWN]
    return (
        f"{told} {limit}.",
        *(
            f"{kind} cell, block {block + 1}, {_reads(source)}: {name} {weight:.3g} beside {other} {its:.3g}."
            for kind, block, _, source, name, weight, other, its in nearest
        ),
    )


def _row(
    kind: str, block: int, tier: int, source: int, name: str, weight: float, other: str, its: float
) -> tuple[TableCell, ...]:
    return kind, block + 1, tier, _reads(source), name, weight, other, its


def _reads(source: int) -> str:
    return "what the first tier gives" if source < 0 else [*_INPUTS][source] if source < 2 else f"node {source - 1}"


def _pictures(names: Sequence[str], history: Any) -> tuple[Picture, ...]:
    """Mean weights over the epochs: of the kinds of operations, and of the operations that ended highest."""
    known = {
        kind: history[kind]
        for kind in KINDS
        if isinstance(history, Mapping) and _is_matrix(history.get(kind), None, len(names))
    }
    if not known:
        return ()
    kinds = {kind: [OPERATIONS[name].kind == kind for name in names] for kind in _TOLD}
    summed = {
        cell: {
            _TOLD[kind]: [sum(w for w, own in zip(row, mine, strict=True) if own) for row in rows]
            for kind, mine in kinds.items()
            if any(mine)
        }
        for cell, rows in known.items()
    }
    for cell, rows in known.items():
        rest = [max(0.0, 1 - sum(row)) for row in rows]
        if max(rest) > _ROUNDED:
            summed[cell][_NOTHING] = rest
    ends = [sum(rows[-1][place] for rows in known.values()) for place in range(len(names))]
    highest = sorted(range(len(names)), key=lambda place: -ends[place])[:_SHOWN]
    single = {cell: {names[place]: [row[place] for row in rows] for place in highest} for cell, rows in known.items()}
    return (
        _picture("Weight by the kind of what operations give, over the epochs", summed),
        _picture("Mean weight of the strongest operations, over the epochs", single),
    )


def _picture(title: str, cells: Mapping[str, Mapping[str, Sequence[float]]]) -> Picture:
    plots = []
    for cell, lines in cells.items():
        drawn = tuple(Line(label, tuple(float(f"{value:.3g}") for value in values)) for label, values in lines.items())
        plots.append(Plot(f"{cell} cell", drawn, 0, len(drawn[0].values) - 1))
    return Picture(title, plots=tuple(plots))


def _is_matrix(data: Any, rows: int | None, columns: int) -> bool:
    """Whether data, perhaps from a file of others, is a list of so many rows of so many finite numbers."""
    if not isinstance(data, list) or not data or (rows is not None and len(data) != rows):
        return False
    return all(
        isinstance(row, list)
        and len(row) == columns
        and all(isinstance(value, (int, float)) and math.isfinite(value) for value in row)
        for row in data
    )
