"""A network drawn from the data of an explanation: one self-contained SVG, for light and dark surroundings.

Kinds are told apart by colour and by shape or dash. Layers go from left to right; a network that is longer than the
drawing is wide goes on in the next row, like text.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import copysign
from string import ascii_lowercase

from eclose.spaces.explanation import Drawing, Edge, Node

LETTER, SMALL = 6.4, 5.4  # pixels of a character of the two sizes
HEIGHT, GAP = 38.0, 26.0  # of a node, and between layers
LANE, ARC = 18.0, 15.0  # between lanes, and for each edge that passes over others
MARGIN = 22.0
LONGEST = 40  # characters of a label
STRETCH = 1.7  # how much wider a drawing may become before branches are torn apart

LIGHT = ("#4b545e", "#0068a8", "#b8548e", "#00855f", "#a87400", "#6a5acd", "#00788a", "#d35400")
DARK = ("#b9c1ca", "#5fb0ef", "#e096c0", "#35c79b", "#e2b03a", "#a99cf5", "#4cc4d6", "#f58a48")
EDGES = (("0", ""), ("7", "6 4"), ("1", "2 3"), ("5", "9 3 2 3"))  # colour and dash
WIDE = 2.4  # of the edges of the third kind


def draw(drawing: Drawing, title: str, width: float = 900.0) -> str:
    """An ``<svg>`` element, ``width`` pixels wide unless one node alone is wider, with its legend below."""
    rows = _rows(drawing, width)
    width = max(width, *(row.right + MARGIN for row in rows))
    edges = "".join(_edge(edge, rows, drawing) for edge in drawing.edges)
    nodes = "".join(_node(node, row, drawing) for row in rows for node in row.nodes)
    legend, height = _legend(drawing, rows[-1].bottom + 24, width)
    body = f"{edges}{nodes}{legend}"
    mark = "d" + hashlib.sha256(f"{title}{body}".encode()).hexdigest()[:8]  # several drawings may share a page
    body = body.replace("url(#arrow", f"url(#{mark}-arrow")
    label = escape(title)
    return (
        f'<svg class="drawing" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img" aria-label="{label}"><title>{label}</title>'
        f"<style>{_style()}</style><defs>{_arrows(mark)}</defs>{body}</svg>"
    )


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

    def place(self, node: Node) -> tuple[float, float, float]:
        """Middle and width of a node."""
        return self.left[node.layer] + self.widths[node.layer] / 2, self.lanes[node.lane], _width(node)


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
    heights = _arc_levels(drawing, nodes)
    lanes, y = {}, top
    for lane in sorted({node.lane for node in nodes}):
        y += ARC * max((level for edge, level in heights.items() if edge.lane == lane), default=0)
        lanes[lane] = y + HEIGHT / 2
        y += HEIGHT + LANE
    arcs = {(edge.source, edge.target): ARC * level for edge, level in heights.items()}
    return _Row(nodes, left, widths, lanes, arcs, y - LANE)


@dataclass(frozen=True)
class _Arc:
    """An edge that passes over nodes of its lane, as far as it lies in one row."""

    source: str
    target: str
    lane: int
    first: int
    last: int


def _arc_levels(drawing: Drawing, nodes: Sequence[Node]) -> dict[_Arc, int]:
    """How high edges pass: over the nodes between, and over the arcs that they contain."""
    known = {node.id: node for node in nodes}
    begin, end = min(node.layer for node in nodes) - 1, max(node.layer for node in nodes) + 1
    arcs = []
    for edge in drawing.edges:
        one, other = known.get(edge.source), known.get(edge.target)
        if lanes := {node.lane for node in (one, other) if node}:
            first, last = one.layer if one else begin, other.layer if other else end
            arc, between = _Arc(edge.source, edge.target, min(lanes), first, last), range(first + 1, last)
            if len(lanes) == 1 and any(node.lane == arc.lane and node.layer in between for node in nodes):
                arcs.append(arc)
    levels: dict[_Arc, int] = {}
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
        widths[node.layer] = max(widths.get(node.layer, 0.0), _width(node))
    return widths


def _width(node: Node) -> float:
    return max(LETTER * len(_short(node.label)), SMALL * len(_short(node.detail)), 26.0) + 22


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _node(node: Node, row: _Row, drawing: Drawing) -> str:
    x, y, width = row.place(node)
    number = list(drawing.node_kinds).index(node.kind)
    told = escape(f"{node.label} ({node.detail})" if node.detail else node.label)
    badge = _badge(x + width / 2 - 3, y - HEIGHT / 2 + 1) if node.mark else ""
    lines = _text(x, y + (0 if node.detail else 4), node.label, "")
    lines += _text(x, y + 12, node.detail, " small") if node.detail else ""
    shape = SHAPES[number % len(SHAPES)](x - width / 2, y - HEIGHT / 2, x + width / 2, y + HEIGHT / 2)
    return f'<g class="n{number % len(LIGHT)}"><title>{told}</title>{shape}</g>{lines}{badge}'


def _text(x: float, y: float, words: str, style: str) -> str:
    return f'<text class="label{style}" x="{x:.1f}" y="{y:.1f}">{escape(_short(words))}</text>'


def _badge(x: float, y: float) -> str:
    """The sign of a mark."""
    cross = f"M{x - 4:.1f} {y:.1f}h8M{x:.1f} {y - 4:.1f}v8"
    return f'<g class="mark"><circle cx="{x:.1f}" cy="{y:.1f}" r="7"/><path d="{cross}"/></g>'


def _rectangle(radius: float) -> "Shape":
    def shape(left: float, top: float, right: float, low: float) -> str:
        size = f'width="{right - left:.1f}" height="{low - top:.1f}" rx="{radius:g}"'
        return f'<rect x="{left:.1f}" y="{top:.1f}" {size}/>'

    return shape


def _polygon(indents: Sequence[tuple[float, float]]) -> "Shape":
    """Corners by how far they are from the left or, where negative or -0.0, the right side, and at which height."""

    def shape(left: float, top: float, right: float, low: float) -> str:
        points = (
            f"{(right if copysign(1, x) < 0 else left) + x:.1f},{top + part * (low - top):.1f}" for x, part in indents
        )
        return f'<polygon points="{" ".join(points)}"/>'

    return shape


def _ellipse(left: float, top: float, right: float, low: float) -> str:
    centre = f'cx="{(left + right) / 2:.1f}" cy="{(top + low) / 2:.1f}"'
    return f'<ellipse {centre} rx="{(right - left) / 2:.1f}" ry="{(low - top) / 2:.1f}"/>'


Shape = Callable[[float, float, float, float], str]
SHAPES: tuple[Shape, ...] = (
    _rectangle(HEIGHT / 2),
    _rectangle(2),
    _polygon([(9, 0), (-9, 0), (-0.0, 0.5), (-9, 1), (9, 1), (0.0, 0.5)]),  # hexagon
    _rectangle(11),
    _polygon([(9, 0), (-0.0, 0), (-9, 1), (0.0, 1)]),  # parallelogram
    _polygon([(0.0, 0), (-9, 0), (-0.0, 0.5), (-9, 1), (0.0, 1), (7, 0.5)]),  # arrow
    _ellipse,
    _polygon([(0.0, 0), (-0.0, 0), (-9, 1), (9, 1)]),  # trapezium
)


def _edge(edge: Edge, rows: Sequence[_Row], drawing: Drawing) -> str:
    number = list(drawing.edge_kinds).index(edge.kind) % len(EDGES)
    (start, one), (end, other) = (_find(rows, node) for node in (edge.source, edge.target))
    (x, y, width), (goal, height, wide) = start.place(one), end.place(other)
    x, goal = x + width / 2, goal - wide / 2
    leaving, arriving = (row.arcs.get((edge.source, edge.target), 0.0) for row in (start, end))
    sign = ""
    if start is not end:
        paths = [_leave(x, y, start.right + MARGIN - 6, leaving), _arrive(6, height, goal, arriving)]
        sign = _letters(edge, drawing, rows, (start.right + MARGIN - 12, y - leaving), (8, height - arriving))
    elif leaving:
        paths = [_over(x, y, goal, height, y - HEIGHT / 2 - leaving)]
    else:
        paths = [_bend(x, y, goal, height) if other.lane <= one.lane else _bend_early(x, y, goal, height)]
    drawn = "".join(f'<path d="{path}" marker-end="url(#arrow{number})"/>' for path in paths)
    words = _text(goal - GAP / 2, height - 7, edge.label, " small") if edge.label else ""
    return f'<g class="e{number}">{drawn}{words}{sign}</g>'


def _letters(
    edge: Edge, drawing: Drawing, rows: Sequence[_Row], leave: tuple[float, float], arrive: tuple[float, float]
) -> str:
    """Where several edges go on in another row, a letter at both ends tells which is which."""
    torn = [other for other in drawing.edges if _find(rows, other.source)[0] is not _find(rows, other.target)[0]]
    ways = [(_find(rows, other.source)[0], _find(rows, other.target)[0]) for other in torn]
    begin, end = (_find(rows, node)[0] for node in (edge.source, edge.target))
    alone = rows.index(end) == rows.index(begin) + 1 and sum(way[0] is begin or way[1] is end for way in ways) == 1
    if alone:
        return ""
    letter = ascii_lowercase[torn.index(edge) % 26]
    return "".join(_text(x, y - 6, letter, " small") for x, y in (leave, arrive))


def _find(rows: Sequence[_Row], name: str) -> tuple[_Row, Node]:
    return next((row, node) for row in rows for node in row.nodes if node.id == name)


def _bend(x: float, y: float, goal: float, height: float) -> str:
    """Along the lane it comes from, then into the other one shortly before the goal."""
    if y == height:
        return f"M{x:.1f} {y:.1f}H{goal:.1f}"
    turn = goal - GAP + 2
    curve = f"C{goal - 6:.1f} {y:.1f} {goal - GAP / 2:.1f} {height:.1f} {goal:.1f} {height:.1f}"
    return f"M{x:.1f} {y:.1f}H{max(x, turn):.1f}{curve}"


def _bend_early(x: float, y: float, goal: float, height: float) -> str:
    """Into the other lane at once, then along it."""
    turn = min(x + GAP, goal)
    return f"M{x:.1f} {y:.1f}C{x + GAP / 2:.1f} {y:.1f} {x + 6:.1f} {height:.1f} {turn:.1f} {height:.1f}H{goal:.1f}"


def _over(x: float, y: float, goal: float, height: float, top: float) -> str:
    """Up, over the nodes between, and down again."""
    up, down = x + GAP / 2, goal - GAP / 2
    return (
        f"M{x:.1f} {y:.1f}C{up:.1f} {y:.1f} {x:.1f} {top:.1f} {up + 8:.1f} {top:.1f}"
        f"H{down - 8:.1f}C{goal:.1f} {top:.1f} {down:.1f} {height:.1f} {goal:.1f} {height:.1f}"
    )


def _leave(x: float, y: float, goal: float, arc: float) -> str:
    """To the right end of the row, over the nodes that follow if need be."""
    if not arc:
        return _bend(x, y, goal, y)
    top = y - HEIGHT / 2 - arc
    return f"M{x:.1f} {y:.1f}C{x + GAP / 2:.1f} {y:.1f} {x:.1f} {top:.1f} {x + GAP / 2 + 8:.1f} {top:.1f}H{goal:.1f}"


def _arrive(x: float, height: float, goal: float, arc: float) -> str:
    """From the left end of the row, over the nodes before if need be."""
    if not arc:
        return _bend(x, height, goal, height)
    top, down = height - HEIGHT / 2 - arc, goal - GAP / 2
    return f"M{x:.1f} {top:.1f}H{down - 8:.1f}C{goal:.1f} {top:.1f} {down:.1f} {height:.1f} {goal:.1f} {height:.1f}"


def _legend(drawing: Drawing, top: float, width: float) -> tuple[str, float]:
    """Every kind that appears and what it means, in as many lines as it takes; and where it ends."""
    entries: list[tuple[str, str]] = []
    for number, (kind, meaning) in enumerate(drawing.node_kinds.items()):
        if any(node.kind == kind for node in drawing.nodes):
            shape = SHAPES[number % len(SHAPES)](0, -8, 30, 8)
            entries.append((f'<g class="n{number % len(LIGHT)}">{shape}</g>', meaning))
    for number, (kind, meaning) in enumerate(drawing.edge_kinds.items()):
        if any(edge.kind == kind for edge in drawing.edges):
            line = f'<path d="M0 0H28" marker-end="url(#arrow{number % len(EDGES)})"/>'
            entries.append((f'<g class="e{number % len(EDGES)}">{line}</g>', meaning))
    entries += [(_badge(15, 0), meaning) for meaning in drawing.marks.values()]
    x, y, drawn = MARGIN, top, ""
    for sign, meaning in entries:
        length = 38 + SMALL * 1.08 * len(meaning) + 24
        if x + length > width and x > MARGIN:
            x, y = MARGIN, y + 26
        words = f'<text class="small" x="38" y="4">{escape(meaning)}</text>'
        drawn += f'<g transform="translate({x:.1f} {y:.1f})">{sign}{words}</g>'
        x += length
    return drawn, y + 24


def _arrows(mark: str) -> str:
    return "".join(
        f'<marker id="{mark}-arrow{number}" class="a{number}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z"/></marker>'
        for number in range(len(EDGES))
    )


def _style() -> str:
    """Rules that reach this class only; colours change with the surroundings."""
    light, dark = (
        ";".join(f"--k{number}:{colour}" for number, colour in enumerate(colours)) for colours in (LIGHT, DARK)
    )
    kinds = "".join(f".drawing .n{n}>*{{stroke:var(--k{n});fill:var(--k{n})}}" for n in range(len(LIGHT)))
    edges = "".join(
        f".drawing .e{n} path{{stroke:var(--k{colour});stroke-dasharray:{dash or 'none'}}}"
        f".drawing .a{n} path{{fill:var(--k{colour})}}"
        for n, (colour, dash) in enumerate(EDGES)
    )
    return (
        f".drawing{{{light};--ink0:#1d2126;--paper0:#fcfcfa;color:var(--ink0);background:var(--paper0);"
        "max-width:100%;height:auto;font:12px system-ui,'Segoe UI',Roboto,'Liberation Sans',sans-serif}"
        f"@media(prefers-color-scheme:dark){{.drawing{{{dark};--ink0:#e6e8ea;--paper0:#15181c}}}}"
        f"{kinds}.drawing [class^=n]>*{{fill-opacity:.13;stroke-width:1.4}}{edges}"
        f".drawing [class^=e] path{{fill:none;stroke-width:1.5}}.drawing .e2 path{{stroke-width:{WIDE}}}"
        ".drawing text,.drawing .label{fill:var(--ink0)!important;fill-opacity:1!important;stroke:none!important}"
        ".drawing .label{text-anchor:middle}.drawing .small{font-size:10.5px}"
        ".drawing .mark circle{fill:var(--ink0);fill-opacity:1;stroke:var(--paper0)}"
        ".drawing .mark path{stroke:var(--paper0);stroke-width:1.8;fill:none}"
    )
