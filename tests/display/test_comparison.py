"""What a comparison says in words."""

from pathlib import Path

import pytest

from eclose.display.comparison import verdict, write_comparison
from eclose.runs.comparison import Row, Standing


def row(name: str, kind: str, *valid: float) -> Row:
    return Row(name, kind, (), (name,) if kind == "search" else (), valid, valid, (1,), (1.0,))


@pytest.mark.parametrize(
    ("beside", "told"),
    [
        (row("inception", "network", 0.97), "But inception, which was not searched, is better there: 97.0 %."),
        (
            row("linear model", "fitted", 0.97),
            "But the linear model, which needs no training, is better there: 97.0 %.",
        ),
        (row("linear model", "fitted", 0.5), "is first, 0.1 ahead of dnarch"),
    ],
)
def test_the_headline_names_what_is_better_without_a_search(beside: Row, told: str) -> None:
    searches = (row("xd", "search", 0.9), row("dnarch", "search", 0.8))
    headline = verdict(Standing("mine", "accuracy", "max", (*searches, beside)))
    assert told in headline
    assert ("But" in headline) == (beside.valid[0] > 0.9)


def test_a_wide_drawing_scrolls_on_a_phone_also_by_keys(tmp_path: Path) -> None:
    standing = Standing("mine", "accuracy", "max", (row("xd", "search", 0.9), row("dnarch", "search", 0.8)))
    source = write_comparison(tmp_path, standing).read_text(encoding="utf-8")
    assert '<div class="scroll wide" tabindex="0"><svg' in source
    assert "(max-width: 640px) { .wide .plot { width: 900px; } }" in source
