"""A network drawn from the data of an explanation: one self-contained SVG, for light and dark surroundings.

Layers go from left to right; a network that is longer than the drawing is wide goes on in the next row, like text.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from string import ascii_lowercase

from eclose.display.explanation.shapes import (
    EDGES,
    GAP,
    HEIGHT,
    MARGIN,
    draw_edge,
    draw_legend,
    draw_node,
    draw_text,
    node_width,
    whole,
)
from eclose.spaces.explanation import Drawing, Edge, Node

LANE, ARC = 18.0, 15.0  # between lanes, and for each edge that passes over others
STRETCH = 1.7  # how much wider a drawing may become before branches are torn apart


def draw(drawing: Drawing, title: str, width: float = 900.0) -> str:
    """An ``<svg>`` element, ``width`` pixels wide unless one node alone is wider, with its legend below."""
    rows = _rows(drawing, width)
    width = max(width, *(row.right + MARGIN for row in rows))
    places = {node.id: (row, node) for row in rows for node in row.nodes}
    letters = _letters(drawing, rows, places)
    edges = "".join(_edge(edge, places, letters, drawing) for edge in drawing.edges)
    nodes = "".join(draw_node(node, *row.place(node), drawing) for row in rows for node in row.nodes)
    legend, height = draw_legend(drawing, rows[-1].bottom + 24, width)
    return whole(f"{edges}{nodes}{legend}", title, width, height)


@dataclass
class _Row:
    """A stretch of layers side by side, with the places of their nodes."""

    nodes: list[Node]
    left: dict[int, float]  # of layers
    widths: dict[int, float]
    lanes: dict[int, float]  # the middle of each
    arcs: dict[tuple[str, str], float]  # heights of edges that pass over nodes of their lane
    bottom: float

    @property
    def right(self) -> float:
        last = max(self.left)
        return self.left[last] + self.widths[last]

    def place(self, node: Node) -> tuple[float, float]:
        """Middle of a node."""
        return self.left[node.layer] + self.widths[node.layer] / 2, self.lanes[node.lane]


def _rows(drawing: Drawing, width: float) -> list[_Row]:
    rows: list[_Row] = []
    top = MARGIN
    for layers in _wrapped(drawing, width - 2 * MARGIN):
        rows.append(_row(drawing, layers, top))
        top = rows[-1].bottom + LANE
    return rows


def _row(drawing: Drawing, layers: Sequence[int], top: float) -> _Row:
    nodes = [node for node in drawing.nodes if node.layer in layers]
    widths = _widths(nodes)
    left, x = {}, MARGIN
    for layer in layers:
        left[layer] = x
        x += widths[layer] + GAP
    heights = arc_levels(drawing, nodes)
    lanes, y = {}, top
    for lane in sorted({node.lane for node in nodes}):
        y += ARC * max((level for edge, level in heights.items() if edge.lane == lane), default=0)
        lanes[lane] = y + HEIGHT / 2
        y += HEIGHT + LANE
    arcs = {(edge.source, edge.target): ARC * level for edge, level in heights.items()}
    return _Row(nodes, left, widths, lanes, arcs, y - LANE)


@dataclass(frozen=True)
class Arc:
    """An edge that passes over nodes of its lane, as far as it lies in one row."""

    source: str
    target: str
    lane: int
    first: int
    last: int


def arc_levels(drawing: Drawing, nodes: Sequence[Node]) -> dict[Arc, int]:
    """How high edges pass: over the nodes between, and over the arcs that they contain."""
    known = {node.id: node for node in nodes}
    begin, end = min(node.layer for node in nodes) - 1, max(node.layer for node in nodes) + 1
    arcs = []
    for edge in drawing.edges:
        one, other = known.get(edge.source), known.get(edge.target)
        if lanes := {node.lane for node in (one, other) if node}:
            first, last = one.layer if one else begin, other.layer if other else end
            arc, between = Arc(edge.source, edge.target, min(lanes), first, last), range(first + 1, last)
            if len(lanes) == 1 and any(node.lane == arc.lane and node.layer in between for node in nodes):
                arcs.append(arc)
    levels: dict[Arc, int] = {}
    for arc in sorted(arcs, key=lambda arc: arc.last - arc.first):
        inner = [a for a in levels if a.lane == arc.lane and a.first < arc.last and arc.first < a.last]
        levels[arc] = 1 + max((levels[a] for a in inner), default=0)
    return levels


def _wrapped(drawing: Drawing, width: float) -> Iterator[list[int]]:
    """The layers of each row. Rows end where one edge alone goes on; within branches only if they are too long."""
    widths = _widths(drawing.nodes)

    def length(layers: Sequence[int]) -> float:
        return sum(widths[layer] + GAP for layer in layers) - GAP

    row: list[int] = []
    for stretch in _stretches(drawing):
        limit = 1.15 * width if length(stretch) < 0.15 * width else width  # a row of one small node looks lost
        if row and length([*row, *stretch]) > limit:
            yield row
            row = []
        if length(stretch) <= STRETCH * width:
            row += stretch
            continue
        for layer in stretch:
            if row and length([*row, layer]) > width:
                yield row
                row = []
            row.append(layer)
    yield row


def _stretches(drawing: Drawing) -> Iterator[list[int]]:
    """Layers that belong together: up to one that hands on one edge only."""
    layer = {node.id: node.layer for node in drawing.nodes}
    spans = [(layer[edge.source], layer[edge.target]) for edge in drawing.edges]
    stretch: list[int] = []
    for one in sorted(set(layer.values())):
        stretch.append(one)
        if sum(first <= one < last for first, last in spans) <= 1:
            yield stretch
            stretch = []


def _widths(nodes: Sequence[Node]) -> dict[int, float]:
    widths: dict[int, float] = {}
    for node in nodes:
        widths[node.layer] = max(widths.get(node.layer, 0.0), node_width(node))
    return widths


Places = dict[str, tuple[_Row, Node]]


def _edge(edge: Edge, places: Places, letters: dict[Edge, str], drawing: Drawing) -> str:
    number = list(drawing.edge_kinds).index(edge.kind) % len(EDGES)
    (start, one), (end, other) = places[edge.source], places[edge.target]
    (x, y), (goal, height) = start.place(one), end.place(other)
    x, goal = x + node_width(one) / 2, goal - node_width(other) / 2
    leaving, arriving = (row.arcs.get((edge.source, edge.target), 0.0) for row in (start, end))
    sign = ""
    if start is not end:
        paths = [_leave(x, y, start.right + MARGIN - 6, leaving), _arrive(6, height, goal, arriving)]
        ends = (start.right + MARGIN - 12, y - leaving), (8, height - arriving)
        sign = "".join(draw_text(at, top - 6, letters[edge], " small") for at, top in ends if edge in letters)
    elif leaving:
        paths = [over(x, y, goal, height, y - HEIGHT / 2 - leaving)]
    else:
        paths = [bend(x, y, goal, height) if other.lane <= one.lane else bend_early(x, y, goal, height)]
    words = draw_text(goal - GAP / 2, height - 7, edge.label, " small") if edge.label else ""
    return draw_edge(paths, number, words + sign)


def _letters(drawing: Drawing, rows: Sequence[_Row], places: Places) -> dict[Edge, str]:
    """Where several edges go on in another row, a letter at both ends tells which is which."""
    number = {id(row): place for place, row in enumerate(rows)}
    ways = {edge: (number[id(places[edge.source][0])], number[id(places[edge.target][0])]) for edge in drawing.edges}
    torn = [edge for edge, (begin, end) in ways.items() if begin != end]
    leaving, arriving = (Counter(ways[edge][side] for edge in torn) for side in (0, 1))
    alike = Counter(ways[edge] for edge in torn)
    letters = {}
    for place, edge in enumerate(torn):
        begin, end = ways[edge]
        alone = end == begin + 1 and leaving[begin] + arriving[end] - alike[begin, end] == 1
        if not alone:
            letters[edge] = ascii_lowercase[place % 26]
    return letters


def bend(x: float, y: float, goal: float, height: float) -> str:
    """Along the lane it comes from, then into the other one shortly before the goal."""
    if y == height:
        return f"M{x:.1f} {y:.1f}H{goal:.1f}"
    turn = goal - GAP + 2
    curve = f"C{goal - 6:.1f} {y:.1f} {goal - GAP / 2:.1f} {height:.1f} {goal:.1f} {height:.1f}"
    return f"M{x:.1f} {y:.1f}H{max(x, turn):.1f}{curve}"


def bend_early(x: float, y: float, goal: float, height: float) -> str:
    """Into the other lane at once, then along it."""
    turn = min(x + GAP, goal)
    return f"M{x:.1f} {y:.1f}C{x + GAP / 2:.1f} {y:.1f} {x + 6:.1f} {height:.1f} {turn:.1f} {height:.1f}H{goal:.1f}"


def over(x: float, y: float, goal: float, height: float, top: float) -> str:
    """Up, over the nodes between, and down again."""
    up, down = x + GAP / 2, goal - GAP / 2
    return (
        f"M{x:.1f} {y:.1f}C{up:.1f} {y:.1f} {x:.1f} {top:.1f} {up + 8:.1f} {top:.1f}"
        f"H{down - 8:.1f}C{goal:.1f} {top:.1f} {down:.1f} {height:.1f} {goal:.1f} {height:.1f}"
    )


def _leave(x: float, y: float, goal: float, arc: float) -> str:
    """To the right end of the row, over the nodes that follow if need be."""
    if not arc:
        return bend(x, y, goal, y)
    top = y - HEIGHT / 2 - arc
    return f"M{x:.1f} {y:.1f}C{x + GAP / 2:.1f} {y:.1f} {x:.1f} {top:.1f} {x + GAP / 2 + 8:.1f} {top:.1f}H{goal:.1f}"


def _arrive(x: float, height: float, goal: float, arc: float) -> str:
    """From the left end of the row, over the nodes before if need be."""
    if not arc:
        return bend(x, height, goal, height)
    top, down = height - HEIGHT / 2 - arc, goal - GAP / 2
    return f"M{x:.1f} {top:.1f}H{down - 8:.1f}C{goal:.1f} {top:.1f} {down:.1f} {height:.1f} {goal:.1f} {height:.1f}"
