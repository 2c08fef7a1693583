"""How values look in Python: text where they are printed, HTML where a notebook shows them."""

import html
import io
import os
from collections.abc import Sequence
from pathlib import Path, PosixPath
from typing import Any

from rich.console import RenderableType
from rich.jupyter import JUPYTER_HTML_FORMAT

from eclose.display.explanation.html import as_fragment
from eclose.display.explanation.text import explanation_text
from eclose.display.terminal.console import Terminal
from eclose.spaces.explanation import Section
from eclose.spaces.xd_likeness import Found


def as_text(table: RenderableType) -> str:
    """As a terminal shows it."""
    console = Terminal(file=io.StringIO(), force_jupyter=False)
    with console.capture() as capture:
        console.print(table)
    return capture.get().rstrip("\n")


def as_html(table: RenderableType) -> str:
    """As a notebook shows it."""
    console = Terminal(file=io.StringIO(), force_jupyter=False, record=True, width=120)
    console.print(table)
    return console.export_html(code_format=JUPYTER_HTML_FORMAT, inline_styles=True)


def page_link(path: Path) -> str:
    """A link to a file, as seen from the notebook."""
    place = html.escape(os.path.relpath(path))
    return f'<p>report: <a href="{place}" target="_blank">{place}</a></p>'


class Page(PosixPath):
    """The path of a page; a notebook shows the page itself."""

    def _repr_html_(self) -> str | None:
        if not self.is_file():
            return None
        text = html.escape(self.read_text(encoding="utf-8"))
        # The page of a foreign run gets no hold of the notebook.
        return f'<iframe srcdoc="{text}" sandbox="allow-scripts" width="100%" height="700" style="border:0"></iframe>'


class Explanation(list[Section]):
    """What a network is, section by section: text where it is printed, with pictures in a notebook."""

    def as_dict(self) -> list[dict[str, Any]]:
        """Plain data, ready for JSON."""
        return [section.as_dict() for section in self]

    def __repr__(self) -> str:
        return as_text(explanation_text(self))

    def _repr_html_(self) -> str:
        return as_fragment(self)


class Description(list[Found]):
    """What became of the operations of a network, one by one; shown as an explanation."""

    def __init__(self, found: Sequence[Found], explanation: Explanation) -> None:
        super().__init__(found)
        self.explanation = explanation

    def __repr__(self) -> str:
        return repr(self.explanation)

    def _repr_html_(self) -> str:
        return self.explanation._repr_html_()
