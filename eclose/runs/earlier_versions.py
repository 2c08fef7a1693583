"""Runs of earlier versions: what had another name there, or stood in another place, is read as it is named today."""

from typing import Any

_MOVED = {  # options, by section
    ("strategy", "final"): ("final", "networks"),
    ("strategy", "final_epochs"): ("final", "train.epochs"),
    ("strategy", "distance_penalty"): ("space", "distance_penalty"),
    ("strategy", "permutation_penalty"): ("space", "permutation_penalty"),
    ("strategy", "linear"): ("strategy", "fitted"),
}
_KEPT = ("final", "linear")  # those whose zero says something; a penalty of zero is none
_KINDS = {"linear": "fitted"}  # of rows: when there was one fitted model only, the linear one


def as_named_now(data: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a run with its settings where they stand today."""
    told = {name: dict(section) if isinstance(section, dict) else section for name, section in data.items()}
    for (section, option), (place, name) in _MOVED.items():
        before = told.get(section)
        options = before.get("options") if isinstance(before, dict) else None
        if isinstance(options, dict) and option in options:
            told[section]["options"] = {key: value for key, value in options.items() if key != option}
            if options[option] or option in _KEPT:
                told.setdefault(place, {})[name if place == "final" else f"options.{name}"] = options[option]
    if isinstance(budget := told.get("budget"), dict) and "seconds" in budget:
        budget["training_seconds"] = budget.pop("seconds")
    return told


def role_now(role: str) -> str:
    """The role of a row of the trial table."""
    return _KINDS.get(role, role)


def result_as_named_now(result: dict[str, Any]) -> dict[str, Any]:
    """The content of a ``result.json`` that is in order."""
    rows = [
        {**row, "kind": _KINDS.get(row["kind"], row["kind"])} if "kind" in row else row for row in result["baselines"]
    ]
    told = {**result, "baselines": rows}
    if won := (result.get("search") or {}).get("linear"):
        others = {key: value for key, value in result["search"].items() if key != "linear"}
        told["search"] = {**others, "fitted": won if isinstance(won, str) else "linear model"}
    return told
