import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from markupsafe import Markup

from tests.end_to_end.command import Call

# The same cases every time: a test that fails by chance says nothing about the change at hand.
settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")

PICTURES = [
    f"eclose.display.{module}.inline_svg"
    for module in ("comparison", "explanation.html", "samples.signals", "sections.front", "sections.plots")
]
SHARED = Path(__file__).parents[1].parent / "shared" / "data"


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing is read from or written to the user's cache; one cache for all tests of a session."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ECLOSE_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("ECLOSE_DATA", raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Small tensors are faster with one thread, and workers do not get into each other's way."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c() -> None:
    """A shell that starts the tests in the background lets them ignore Ctrl-C, and their processes inherit it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module", autouse=True)
def pictures() -> Iterator[None]:
    """Pages have empty pictures, whose drawing takes longer than a small run; tests of the display draw them."""
    with pytest.MonkeyPatch.context() as patch:
        for name in PICTURES:
            patch.setattr(name, lambda *given: Markup("<svg></svg>"))
        yield


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that the test writes have their pictures."""
    from eclose.display.sections.svg import inline_svg

    for name in PICTURES:
        monkeypatch.setattr(name, inline_svg)


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """The command line in this process, in an empty folder."""
    from eclose.cli import main

    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["eclose", *map(str, arguments)])
        status = main()
        out, err = capsys.readouterr()
        return status, out, err

    return run


@pytest.fixture
def shared() -> Path:
    """The folder of real data beside the repository."""
    if not SHARED.is_dir():
        pytest.skip("no real data beside the repository")
    return SHARED
