"""Explanations as people see them: whole, in order, legible without colours, and harmless whatever they say."""

import json
import re
from html.parser import HTMLParser

import pytest
from rich.console import Console

from eclose.display.explanation.html import as_fragment, cell_text
from eclose.display.explanation.text import BARS, explanation_text
from eclose.display.notebook import as_text
from eclose.spaces.explanation import Section, Table
from tests.spaces.test_explanation import WHOLE

EVIL = "<script>alert('x')</script>"


class Words(HTMLParser):
    """Text of a page in order, and its tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[str] = []
        self.inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "style" not in self.inside:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def test_sentences_then_pictures_then_the_table() -> None:
    html = as_fragment(WHOLE)
    shown = Words(html)
    places = [shown.text.index(part) for part in ("One sentence.", "input", "Told.", "maps", "a note")]
    assert places == sorted(places)
    assert shown.tags.count("img") == 1
    assert html.count('class="drawing"') == 2, "for wide pages and for phones"
    assert html.count('class="plot"') == 1
    assert "layer moved conv 25.0 % norm – pool 300 %" in shown.text
    assert 'alt="one: −1.00 to 3.00"' in html
    assert 'aria-label="first: start from 0 to 1.50"' in html
    assert "hatched: below zero" in shown.text
    assert not re.search(r"https?://(?!www.w3.org)|url\((?!#)|@import|<script", html)


def test_the_same_as_text() -> None:
    text = as_text(explanation_text(WHOLE))
    lines = text.splitlines()
    assert lines[:3] == ["All of it", "One sentence.", "Another."]
    assert "  input" in lines
    assert "+     norm (width 3)" in lines
    assert "(+ not there)" in lines
    assert "  start ▁█" in lines
    assert "conv  25.0 %" in lines
    assert lines[-1] == "Hardly anything"


@pytest.mark.parametrize("text", [EVIL, "\x1b[2J", '"><b>'])
def test_what_files_say_is_text(text: str) -> None:
    data = json.loads(
        json.dumps(WHOLE[0].as_dict()).replace('"One sentence."', json.dumps(text)).replace("conv", "x<b>")
    )
    from eclose.spaces.explanation import sections_from

    (section,) = sections_from([data])
    html = as_fragment([section])
    assert "<script>" not in html
    assert "<b>" not in html
    assert "\x1b" not in as_text(explanation_text([section]))


def test_cells() -> None:
    assert cell_text(None, True) == "–"
    assert cell_text("layer", True) == "layer"
    assert cell_text(12345, False) == "12,345"
    assert cell_text(0.12345, False) == "0.123"
    assert [cell_text(share, True) for share in (0, 1e-8, 0.0123, 0.5, 1.5, 12.0)] == [
        "0 %",
        "0 %",
        "1.23 %",
        "50.0 %",
        "150 %",
        "1,200 %",
    ]


def test_nothing_to_say() -> None:
    assert as_text(explanation_text([])) == ""


@pytest.mark.parametrize("width", [34, 50, 80])
def test_text_fits_its_terminal(width: int) -> None:
    console = Console(width=width, markup=False)
    with console.capture() as capture:
        console.print(explanation_text(WHOLE))
    lines = capture.get().splitlines()
    assert max(map(len, lines)) <= width
    bars = [line for line in lines if any(bar in line for bar in BARS)]
    assert bars
    assert all(line.strip()[0] not in BARS for line in bars), "every line of bars stands behind its name"


def test_a_table_too_wide_for_its_terminal_is_told_row_by_row() -> None:
    headings = ("layer", "started as", "moved", "K", "nearest known operation", "residual")
    table = Table(
        headings, (("0.blocks.1.convolutions.1", "convolution", 0.25, 0.5, "skip", 0.125),), shares=("moved",)
    )
    shown = {}
    for width in (50, 80):
        console = Console(width=width, markup=False)
        with console.capture() as capture:
            console.print(explanation_text([Section("It", table=table)]))
        shown[width] = capture.get()
    assert "0.blocks.1.convolutions.1" in shown[50], "in one piece"
    assert "started as convolution, moved 25.0 %, K 0.500, nearest known operation skip, residual 0.125" in " ".join(
        shown[50].split()
    )
    assert "\nlayer" in shown[80], "a heading"
    assert "<h3>Bare</h3>" in as_fragment([Section("Bare")])
