"""What drawings of networks are made of: shapes of nodes, arrows, the legend, colours for light and dark.

Kinds are told apart by colour and by shape or dash.
"""

import hashlib
from collections.abc import Callable, Sequence
from html import escape
from math import copysign

from eclose.spaces.explanation import Drawing, Node

LETTER, SMALL = 6.4, 5.4  # pixels of a character of the two sizes
HEIGHT, GAP = 38.0, 26.0  # of a node, and between layers
MARGIN = 22.0
_LONGEST = 40  # characters of a label

LIGHT = ("#4b545e", "#0068a8", "#b8548e", "#00855f", "#a87400", "#6a5acd", "#00788a", "#d35400")
DARK = ("#b9c1ca", "#5fb0ef", "#e096c0", "#35c79b", "#e2b03a", "#a99cf5", "#4cc4d6", "#f58a48")
EDGES = (("0", ""), ("7", "6 4"), ("1", "2 3"), ("5", "9 3 2 3"))  # colour and dash
WIDE = 2.4  # of the edges of the third kind


def whole(body: str, title: str, width: float, height: float, least: float = 0.0) -> str:
    """An ``<svg>`` element around the parts of a drawing, which is not shown narrower than ``least`` pixels."""
    mark = "d" + hashlib.sha256(f"{title}{body}".encode()).hexdigest()[:8]  # several drawings may share a page
    body = body.replace("url(#arrow", f"url(#{mark}-arrow")
    label = escape(title)
    return (
        f'<svg class="drawing" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" style="min-width: {least:g}px" role="img" '
        f'aria-label="{label}"><title>{label}</title>'
        f"<style>{_style()}</style><defs>{_arrows(mark)}</defs>{body}</svg>"
    )


def node_width(node: Node) -> float:
    """As wide as its words."""
    return max(LETTER * len(_short(node.label)), SMALL * len(_short(node.detail)), 26.0) + 22


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def draw_node(node: Node, x: float, y: float, drawing: Drawing) -> str:
    """A node around its middle."""
    width = node_width(node)
    number = list(drawing.node_kinds).index(node.kind)
    told = escape(f"{node.label} ({node.detail})" if node.detail else node.label)
    badge = _badge(x + width / 2 - 3, y - HEIGHT / 2 + 1) if node.mark else ""
    lines = draw_text(x, y + (0 if node.detail else 4), node.label, "")
    lines += draw_text(x, y + 12, node.detail, " small") if node.detail else ""
    shape = SHAPES[number % len(SHAPES)](x - width / 2, y - HEIGHT / 2, x + width / 2, y + HEIGHT / 2)
    return f'<g class="n{number % len(LIGHT)}"><title>{told}</title>{shape}</g>{lines}{badge}'


def draw_text(x: float, y: float, words: str, style: str) -> str:
    """Words around their middle."""
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


def draw_edge(paths: Sequence[str], number: int, words: str = "") -> str:
    """An edge of a kind, by its number: one path or more, each with its arrow."""
    drawn = "".join(f'<path d="{path}" marker-end="url(#arrow{number})"/>' for path in paths)
    return f'<g class="e{number}">{drawn}{words}</g>'


def draw_legend(drawing: Drawing, top: float, width: float) -> tuple[str, float]:
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
