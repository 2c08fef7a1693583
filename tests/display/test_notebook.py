"""How results, descriptions and pages look where they are printed, and where a notebook shows them."""

import builtins
import io
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import eclose
from eclose.display.notebook import Page
from eclose.display.terminal.progress import progress_listener
from eclose.errors import ConfigError, EcloseError
from tests.display.terminal.test_progress import MANY
from tests.display.terminal.test_tables import RESULT


def test_a_result_prints_its_table() -> None:
    result = eclose.Result(Path("runs/[mine]"), RESULT)
    assert repr(result) == "<Result of runs/[mine]: cnn (xd), relative_l2: valid 0.04, test 0.03>"
    text = str(result)
    assert "518,849" in text
    assert text.endswith("run     runs/[mine]\nreport  runs/[mine]/report.html")
    assert "\x1b" not in text


def test_a_result_is_a_table_and_a_link_in_a_notebook() -> None:
    shown = eclose.Result(Path('runs/<b>"'), RESULT)._repr_html_()
    assert "518,849" in shown
    assert "[/x]" in shown
    assert '<a href="runs/&lt;b&gt;&quot;/report.html"' in shown


def test_a_page_is_a_path_that_a_notebook_shows(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text('<p title="a">found</p>')
    page = Page(tmp_path / "report.html")
    assert page == tmp_path / "report.html"
    shown = page._repr_html_()
    assert shown is not None
    assert 'srcdoc="&lt;p title=&quot;a&quot;&gt;found' in shown
    assert "allow-same-origin" not in shown
    assert page.parent.joinpath("none")._repr_html_() is None  # type: ignore[attr-defined]


def test_a_description_is_shown_as_an_explanation() -> None:
    network = eclose.relax(nn.Sequential(nn.Conv1d(1, 2, 3, padding=1)), torch.zeros(1, 1, 8))
    found = eclose.describe(network)
    assert [one.path for one in found] == ["0"]
    assert repr(found) == str(found) == repr(found.explanation)
    assert "none moved at all." in " ".join(str(found).split())
    assert "\x1b" not in str(found)
    shown = found._repr_html_()
    assert "none moved at all." in shown
    assert "<td" in shown
    assert "convolution with dilation 1" in shown
    assert shown.startswith('<div class="eclose">')


class Shown:
    """Stands in for the display of a notebook."""

    def __init__(self) -> None:
        self.drawn: list[str] = []

    def __call__(self, value: Any, **options: Any) -> "Shown":
        return self.update(value)

    def update(self, value: Any) -> "Shown":
        self.drawn.append(value._repr_mimebundle_(include=[], exclude=[])["text/html"])
        return self


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Shown:
    shown, module = Shown(), types.ModuleType("IPython.display")
    module.display = shown  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(builtins, "get_ipython", type("ZMQInteractiveShell", (), {}), raising=False)
    return shown


def test_bars_are_drawn_in_place_in_a_notebook(notebook: Shown) -> None:
    stream = io.StringIO()
    with progress_listener(stream) as listen:
        assert notebook.drawn == [], "an error before anything begins leaves no empty bars"
        for event, fields in MANY[:9]:
            listen(event, fields)
    assert stream.getvalue() == ""
    assert "search" in notebook.drawn[0]
    assert "best 0.75" in notebook.drawn[-1], "the last state is drawn, however soon it comes"


def test_errors_in_a_notebook_are_one_line_above_the_lines_of_the_user() -> None:
    def forward() -> None:
        raise TypeError("inner")

    def mistake() -> None:
        try:
            forward()
        except TypeError as error:
            raise ConfigError("clear line") from error

    with pytest.raises(EcloseError) as caught:
        mistake()
    lines = caught.value._render_traceback_()
    assert lines[:2] == ["ConfigError: clear line", ""]
    assert lines[-1] == "eclose.errors.ConfigError: clear line"
    assert "TypeError: inner" in lines
    with pytest.raises(EcloseError) as caught:
        eclose.search(task="burger")
    lines = caught.value._render_traceback_()
    assert lines[0].startswith("ConfigError: unknown task 'burger'")
    assert [line for line in lines if line.startswith("  File")] == [line for line in lines if __file__ in line]
