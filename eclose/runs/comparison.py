"""Finished runs on the same data side by side: one row for every way of searching, whatever its seeds were."""

import dataclasses
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eclose.config import FORMAT, Config, RunSection
from eclose.errors import RunError, typed
from eclose.runs.files import parse_json
from eclose.runs.run import COMPARISON, Run


@dataclass(frozen=True)
class Row:
    """One way of searching, or a network or predictor beside it; a figure is a list of those of its runs."""

    name: str
    kind: str  # search, network, or that of a predictor
    found: tuple[str, ...]  # the networks that were found
    runs: tuple[str, ...]  # their folders
    valid: tuple[float, ...]
    test: tuple[float, ...]
    parameters: tuple[int, ...]
    seconds: tuple[float, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain data; single figures are means."""
        each = {name: list(getattr(self, name)) for name in _FIGURES}
        told = {"name": self.name, "kind": self.kind, "found": list(self.found), "runs": list(self.runs)}
        return told | {name: mean(values) for name, values in each.items()} | {"each": each}


_FIGURES = ("valid", "test", "parameters", "seconds")


@dataclass(frozen=True)
class Standing:
    """All rows, the best by validation samples first: searches, networks beside them, predictors."""

    task: str
    metric: str
    goal: str
    rows: tuple[Row, ...]

    @property
    def searches(self) -> tuple[Row, ...]:
        """Those rows that were searched."""
        return tuple(row for row in self.rows if row.kind == "search")

    @property
    def ahead(self) -> float | None:
        """By how much the first is better than the second, on validation samples."""
        first, second = (mean(row.valid) for row in self.searches[:2])
        return None if first is None or second is None else abs(first - second)

    @property
    def apart(self) -> float | None:
        """The largest difference between two seeds of one way; None with one seed each."""
        spans = [max(row.valid) - min(row.valid) for row in self.searches if len(row.valid) > 1]
        return max(spans, default=None)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        told = {"format": FORMAT, "task": self.task, "metric": {"name": self.metric, "goal": self.goal}}
        return told | {"ahead": self.ahead, "apart": self.apart, "rows": [row.as_dict() for row in self.rows]}


def mean(values: Sequence[float]) -> float | None:
    """Of the known ones."""
    return statistics.fmean(values) if values else None


def standing_of(runs: Sequence[Run]) -> Standing:
    """That of finished runs; refused where they cannot be compared."""
    results = [_result(run) for run in runs]
    _check_alike(runs, results)
    ways: dict[str, list[int]] = {}
    for number, run in enumerate(runs):
        ways.setdefault(_way(run.config), []).append(number)
    if len(ways) < 2:
        raise RunError("there is nothing to compare: these runs differ in their seeds only")
    names = _names([[runs[number] for number in numbers] for numbers in ways.values()])
    rows = [
        _row(name, "search", [{**results[n], "found": results[n]["name"]} for n in numbers], [runs[n] for n in numbers])
        for name, numbers in zip(names, ways.values(), strict=True)
    ]
    metric = results[0]["metric"]
    rows = [*_sorted(rows, metric["goal"]), *_beside(runs, results, metric["goal"])]
    return Standing(results[0]["task"], metric["name"], metric["goal"], tuple(rows))


def _result(run: Run) -> dict[str, Any]:
    if run.result is None:
        raise RunError(f"{run.path} has not finished: `eclose resume {typed(run.path)}` first")
    return run.result


def _check_alike(runs: Sequence[Run], results: Sequence[Mapping[str, Any]]) -> None:
    """Figures on other data, or by another metric, say nothing beside these."""
    first = runs[0].path
    for run, result in zip(runs[1:], results[1:], strict=True):
        if run.path.resolve() in {other.path.resolve() for other in runs if other is not run}:
            raise RunError(f"{run.path} is named twice: name every run once")
        if _data(run) != _data(runs[0]):
            raise RunError(f"{run.path} and {first} have other data: compare runs on the same samples")
        if result["metric"] != results[0]["metric"]:
            names = f"{result['metric']['name']} and {results[0]['metric']['name']}"
            raise RunError(f"{run.path} and {first} are judged by {names}: compare runs with one task.metric")


def _data(run: Run) -> Any:
    """Which samples a run had; runs of earlier versions do not say."""
    path = run.path / "data.json"
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read ({error}): nobody knows whether this run has the same data") from None


def _way(config: Config) -> str:
    """All settings but those of the place and the seed."""
    return dataclasses.replace(config, run=RunSection()).to_toml()


def _names(ways: Sequence[Sequence[Run]]) -> list[str]:
    """The space, or the folder of the first run where several ways have the same one."""
    spaces = [runs[0].config.space.name for runs in ways]
    return [
        space if spaces.count(space) == 1 else os.path.normpath(runs[0].path)
        for space, runs in zip(spaces, ways, strict=True)
    ]


def _row(name: str, kind: str, results: Sequence[Mapping[str, Any]], runs: Sequence[Run]) -> Row:
    def figures(key: str) -> tuple[Any, ...]:
        return tuple(result[key] for result in results if result.get(key) is not None)

    found = tuple(dict.fromkeys(figures("found")))
    places = tuple(str(run.path) for run in runs)
    return Row(name, kind, found, places, *(figures(key) for key in _FIGURES))


def _beside(runs: Sequence[Run], results: Sequence[Mapping[str, Any]], goal: str) -> list[Row]:
    """Networks that were trained beside the searches, then predictors; equal names are one row."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for run, result in zip(runs, results, strict=True):
        searched = {trial.number for trial in run.table.all() if trial.role == "search"}
        for row in result["baselines"]:
            if row.get("trial") not in searched:  # a portfolio has its rivals there
                groups.setdefault((row.get("kind", "network"), row["name"]), []).append(row)
    rows = [_row(name, kind, given, []) for (kind, name), given in groups.items()]
    trained = [row for row in rows if row.kind == "network"]
    return [*_sorted(trained, goal), *_sorted((row for row in rows if row.kind != "network"), goal)]


def _sorted(rows: Iterable[Row], goal: str) -> list[Row]:
    """The best on validation samples first, those without a figure last."""

    def order(row: Row) -> tuple[bool, float]:
        value = mean(row.valid)
        return value is None, 0.0 if value is None else -value if goal == "max" else value

    return sorted(rows, key=order)


def compared_runs(folders: Sequence[Path]) -> list[Path]:
    """Run folders, where a folder of compared runs stands for all of its own."""
    found: list[Path] = []
    for folder in folders:
        found += [folder / name for name in runs_in(folder)] if (folder / COMPARISON).is_file() else [folder]
    return found


def runs_in(folder: Path) -> list[str]:
    """The names of the runs in a folder of compared runs, in their order."""
    path = folder / COMPARISON
    try:
        names = parse_json(path.read_text(encoding="utf-8"))["runs"]
        if not (isinstance(names, list) and names and all(map(_is_folder_name, names))):
            raise ValueError("'runs' must name folders beside the file")
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise RunError(f"{path} is damaged ({error}): name the runs themselves") from None
    return names


def _is_folder_name(name: Any) -> bool:
    return isinstance(name, str) and name not in ("", ".", "..") and Path(name).name == name
