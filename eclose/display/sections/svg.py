"""Drawings by matplotlib that live inside the page: its font, its colours, light and dark.

A figure is painted with the placeholder colours below; in the SVG text they become CSS variables, which the
page defines once for its light and once for its dark appearance.
"""

import hashlib
import io
import re
from collections.abc import Callable

import matplotlib.style
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from eclose.display.networks import COLOURS

INK = "#000001"
QUIET = "#000002"
RULE = "#000003"
PAPER = "#000004"
SERIES = tuple(f"#0000{16 + index:02x}" for index in range(COLOURS)) + (QUIET,)
DASHES: tuple[tuple[float, ...], ...] = (
    (),
    (6, 2),
    (2, 1.5),
    (7, 2, 2, 2),
    (4, 1.5),
    (9, 2, 2, 2, 2, 2),
    (),
)

_VARIABLES = {INK: "ink", QUIET: "quiet", RULE: "rule", PAPER: "paper"} | {
    colour: f"series-{index}" for index, colour in enumerate(SERIES[:COLOURS])
}
_STYLE = {"svg.fonttype": "none", "svg.hashsalt": "eclose", "font.size": 11.0, "axes.unicode_minus": True}


def inline_svg(width: float, height: float, paint: Callable[[Figure], None], title: str) -> Markup:
    """An ``<svg>`` element of ``width`` by ``height`` CSS pixels, which the page may scale."""
    # Style is process-wide in matplotlib: the context keeps the user's settings out of the page, and ours in it.
    with matplotlib.style.context(_STYLE, after_reset=True):
        figure = Figure(figsize=(width / 72, height / 72), facecolor="none")
        paint(figure)
        buffer = io.StringIO()
        FigureCanvasSVG(figure).print_svg(buffer, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return Markup(_for_page(buffer.getvalue(), width, height, title))


def panel(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes at a place in CSS pixels from the upper left corner, with quiet ticks and light horizontal rules."""
    whole_width, whole_height = 72 * figure.get_figwidth(), 72 * figure.get_figheight()
    place = (
        left / whole_width,
        1 - (top + height) / whole_height,
        width / whole_width,
        height / whole_height,
    )
    axes = figure.add_axes(place, facecolor="none")
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(RULE)
    axes.tick_params(length=0, colors=QUIET, labelsize=11, pad=5)
    axes.grid(axis="y", color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.yaxis.get_offset_text().set_color(QUIET)
    axes.yaxis.set_offset_position("right")
    return axes


def dashes(colour: int) -> str:
    """``stroke-dasharray`` of a network's line, for legends."""
    return " ".join(f"{length:g}" for length in DASHES[colour]) or "none"


def _for_page(text: str, width: float, height: float, title: str) -> str:
    body = text[text.index("<svg") :]
    body = body[body.index(">") + 1 :]
    body = re.sub(r"<style.*?</style>|<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r"font-family: [^;\"]*", "font-family: inherit", body)
    body = re.sub(r"#0000[0-9a-f]{2}\b", _variable, body)
    body = body.replace("xlink:href", "href")
    # Several drawings share one document, so their ids must not meet.
    mark = hashlib.sha256(f"{title} {body}".encode()).hexdigest()[:8]
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{mark}-", body)
    body = re.sub(r"\s*\n\s*", " ", body)
    label = escape(title)
    start = f'<svg class="plot" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{label}">'
    return f"{start}{body}"


def _variable(match: re.Match[str]) -> str:
    name = _VARIABLES.get(match[0])
    return f"var(--{name})" if name else match[0]
