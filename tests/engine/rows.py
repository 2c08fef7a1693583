"""Rows of a trial table, without trainings."""

from typing import Any

from eclose.runs import Trial


def row(number: int, valid: float | None = None, **changes: Any) -> Trial:
    """A search trial that is done if it has a value, and under way if not."""
    state = "running" if valid is None else "done"
    values = {"role": "search", "name": "toy", "space": "toy", "genotype": {}, "hash": f"{number}", "seed": number}
    return Trial(number, **{**values, "state": state, "valid": valid, **changes})


def curve(*values: float | None) -> list[dict[str, Any]]:
    """A history with these validation values, None where an epoch was not evaluated."""
    return [{"epoch": n, **({} if value is None else {"valid": value})} for n, value in enumerate(values, 1)]
