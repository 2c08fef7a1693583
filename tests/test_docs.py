"""Pages point at what is there: every relative link, and every file that a table of files names."""

import re
from pathlib import Path

import pytest

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
