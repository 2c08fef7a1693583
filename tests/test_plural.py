"""Counted things in texts."""

from eclose.plural import plural


def test_plural() -> None:
    assert plural(1, "class") == "1 class"
    assert plural(2, "class") == "2 classes"
    assert plural(0, "block") == "0 blocks"
    assert plural(1200, "step") == "1,200 steps"
