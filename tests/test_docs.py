"""Pages point at what is there: every relative link, file, command, option, setting and file of results."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from eclose.cli.entry import app
from eclose.config import SECTIONS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def prose(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Those that GitHub gives to the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def files_named(text: str) -> list[str]:
    return re.findall(r"`([\w./-]+(?:\.\w+|/))`", text)


def test_pages_are_found() -> None:
    assert len(PAGES) > 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page: Path) -> None:
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)) if "://" not in link]
    for link in links:
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_glossary_names_files() -> None:
    rows = [line for line in prose(ROOT / "docs/glossary.md").splitlines() if line.startswith("| ")]
    places = [name for row in rows for name in files_named(row.split("|")[-2])]
    assert len(places) > 60
    for name in places:
        assert (ROOT / "eclose" / name).exists(), name


def test_where_do_i_names_files() -> None:
    section = prose(ROOT / "docs/architecture.md").split("\n## Where do I ...\n")[1].split("\n## ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 20
    for _, question, place, *_ in rows:
        names = files_named(place)
        assert len(names) == 1, f"{question} has one place"
        assert (ROOT / names[0]).exists(), names[0]


VERBS = {
    name: {option for parameter in command.params for option in parameter.opts} | {"-h", "--help"}
    for name, command in typer.main.get_command(app).commands.items()
}


def commands(page: Path) -> list[list[str]]:
    """Those in blocks of code, as words."""
    blocks = re.findall(r"^```\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("eclose ")]


def test_commands_are_found() -> None:
    assert sum(len(commands(page)) for page in PAGES) > 80


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands(page: Path) -> None:
    for verb, *words in commands(page):
        if verb.startswith("--"):
            continue  # of eclose itself
        assert verb in VERBS
        assert {word for word in words if word.startswith("--")} <= VERBS[verb], words
        settings = [after for word, after in zip(words, words[1:], strict=False) if word == "--set"]
        assert {setting.split(".")[0] for setting in settings} <= set(SECTIONS), words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_of_results(page: Path) -> None:
    """``xd-cost-cuda`` is the dated file of that name."""
    for name in re.findall(r"`([a-z][a-z0-9-]*-(?:cpu|cuda))`", prose(page)):
        assert list((ROOT / "benchmarks/results").glob(f"????-??-??-{name}.md")), name
