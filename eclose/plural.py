"""Counted things in texts."""


def plural(count: int, noun: str) -> str:
    """``1 step``, ``1,200 steps``, ``2 classes``."""
    ending = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{count:,} {noun}{ending}"
