"""Searches of several spaces on the same data with the same time, or runs that are there, in one table."""

import contextlib
import functools
import os
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eclose.api.searching import ask, reading, resume
from eclose.api.using import Backbone
from eclose.backbones.consent import consenting
from eclose.display.comparison import comparison_table, write_comparison
from eclose.display.notebook import as_html, as_text, page_link
from eclose.display.terminal.progress import progress_listener
from eclose.errors import ConfigError, EcloseError, Interrupted
from eclose.events import Events, Listener
from eclose.launch import prepare_runs, stoppable
from eclose.runs import COMPARISON, Run, write_json
from eclose.runs.comparison import Standing, compared_runs, runs_in, standing_of
from eclose.runs.run import locked
from eclose.spaces import spaces as known_spaces
from eclose.tasks import Data
from eclose.train import usual_torch

_MINUTES = 10.0  # of each search, where nothing else limits it
_MOST_SEEDS = 100


@dataclass(frozen=True, repr=False)
class Comparison:
    """Runs side by side, the best by validation samples first."""

    runs: tuple[Path, ...]
    standing: Standing
    folder: Path | None = None  # of the comparison, where it made the runs
    failed: tuple[str, ...] = ()  # searches that found nothing, and why

    @functools.cached_property
    def metrics(self) -> dict[str, Any]:
        """Plain data. ``comparison.json`` has the same, but names of runs in place of their folders."""
        place = {"folder": str(self.folder or ""), "runs": [str(run) for run in self.runs]}
        return place | {"failed": list(self.failed)} | self.standing.as_dict()

    def __repr__(self) -> str:
        return f"<Comparison of {len(self.runs)} runs: {self.standing.searches[0].name} first>"

    def __str__(self) -> str:
        page = f"\nreport  {self.folder / 'comparison.html'}" if self.folder else ""
        return f"{as_text(comparison_table(self.standing, self.failed))}{page}"

    def _repr_html_(self) -> str:
        page = page_link(self.folder / "comparison.html") if self.folder else ""
        return as_html(comparison_table(self.standing, self.failed)) + page


@usual_torch()
def compare(
    *runs: str | Path,
    spaces: str | Sequence[str] = (),
    seeds: int = 1,
    task: str = "",
    data: str | Path | Data | None = None,
    backbone: Backbone = "",
    minutes: float | None = None,
    epochs: int | None = None,
    trials: int | None = None,
    seed: int = 0,
    device: str = "",
    workers: int | None = None,
    out: str | Path = "",
    kind: str = "",
    tokens: bool = False,
    axes: int = 0,
    channels: str = "",
    label: str = "",
    data_dir: str = "",
    settings: Mapping[str, Any] | None = None,
    trust: bool = False,
    progress: bool = True,
    listeners: Sequence[Listener] = (),
) -> Comparison:
    """Search ``spaces`` on the same data, each for the same time, and set what they found side by side.

    Each of them is a run of its own, with its page, in a folder that has a page of the comparison too. ``minutes`` (10,
    unless epochs or trials are given) are those of one search. With ``seeds=3`` every space is searched three times,
    from ``seed`` on, and the table has means. All other options are those of :func:`eclose.search`.

    With ``runs`` nothing is searched: finished runs on the same data are compared. The folder of a comparison that was
    interrupted goes on where it stopped, with ``data`` and ``backbone`` if they were objects.
    """
    given = {
        "task.name": task,
        "task.data_dir": data_dir,
        **reading(kind, tokens, axes, channels, label),
        "train.epochs": epochs,
        "budget.trials": trials,
        "budget.minutes": minutes,
        "run.device": device,
        "run.workers": workers,
    }
    if runs:
        file = data if isinstance(data, (str, Path)) else ""
        _check_alone({"--spaces": spaces, "--seeds": seeds - 1, "--seed": seed, "--out": out, "--data": file, **given})
        _check_alone(dict.fromkeys(settings or {}, True))  # whatever their values are
        return _of_runs([Path(run) for run in runs], data, backbone, trust, progress, listeners)
    names = _spaces(spaces)
    _check_searches(seeds, bool(task) or data is not None, settings or {})
    limits = {**given, **(settings or {})}
    if all(limits[key] is None for key in ("train.epochs", "budget.trials", "budget.minutes")):
        given["budget.minutes"] = _MINUTES
    searches = {
        name if seeds == 1 else f"{name}-{number}": ask(
            {**given, "space.name": name, "run.seed": number}, data, backbone, "", settings, trust
        )
        for number in range(seed, seed + seeds)
        for name in names
    }
    asked = next(iter(searches.values()))
    configs = {name: search.config for name, search in searches.items()}
    network = "" if isinstance(backbone, str) else backbone
    with stoppable():  # from here on, so that nobody asks in vain between the searches
        with consenting(asked.consent):
            folder = prepare_runs(configs, out, listeners, progress, asked.data)
        return _finished(folder, asked.data, network, trust, progress, listeners)


def _check_searches(seeds: int, has_data: bool, settings: Mapping[str, Any]) -> None:
    """Refuse searches that could not be compared."""
    for key, option in {"space.name": "--spaces", "run.seed": "--seed"}.items():
        if key in settings:
            raise ConfigError(f"'{key}' cannot be set: the searches of a comparison differ in it, {option} says how")
    if not (has_data or {"task.name", "task.data"} & set(settings)):
        raise ConfigError("there is no data to compare spaces on: name --data FILE or --task NAME")
    if not 1 <= seeds <= _MOST_SEEDS:
        raise ConfigError(f"seeds is {seeds}, but must be from 1 to {_MOST_SEEDS}: so often is every space searched")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError("a comparison is one process: start it without torchrun (--workers uses several GPUs)")


def _check_alone(given: Mapping[str, Any]) -> None:
    """Refuse what is for new searches."""
    if unused := [name for name, value in given.items() if value]:
        raise ConfigError(f"{unused[0]} is for new searches, but runs were named, which are compared as they are")


def _spaces(spaces: str | Sequence[str]) -> list[str]:
    names = [name.strip() for name in (spaces.split(",") if isinstance(spaces, str) else spaces) if name.strip()]
    if len(set(names)) < len(names):
        raise ConfigError(f"--spaces {','.join(names)} names a space twice")
    if len(names) < 2:
        raise ConfigError(f"name two spaces or more, as in --spaces xd,einspace; there are {', '.join(known_spaces)}")
    return names


def _of_runs(
    folders: list[Path],
    data: str | Path | Data | None,
    backbone: Backbone,
    trust: bool,
    progress: bool,
    listeners: Sequence[Listener],
) -> Comparison:
    if len(folders) == 1 and (folders[0] / COMPARISON).is_file():
        return _finished(folders[0], data, backbone, trust, progress, listeners)
    for name, given in {"data": data is not None, "backbone": backbone != ""}.items():
        if given:
            raise ConfigError(f"{name} is for searches, but finished runs were named, which are compared as they are")
    paths = compared_runs(folders)
    opened = [Run.open(path) for path in paths]
    if len(paths) < 2:
        raise ConfigError(f"{paths[0]} is one run: name two or more, or the folder of a comparison")
    return Comparison(tuple(paths), standing_of(opened))


def _finished(
    folder: Path,
    data: Any,
    backbone: Backbone,
    trust: bool,
    progress: bool,
    listeners: Sequence[Listener],
) -> Comparison:
    """The comparison in a folder, once the searches that are left have been made."""
    names, failed = runs_in(folder), dict[str, Exception]()
    ended = all((folder / name / "result.json").is_file() for name in names)
    events = Events([*listeners, *([_say] if progress else [])])
    how: dict[str, Any] = {"backbone": backbone, "trust": trust, "progress": progress, "listeners": listeners}
    try:
        with stoppable() as stop, contextlib.nullcontext() if ended else locked(folder):
            for place, name in enumerate(names, 1):
                try:
                    if Run.open(folder / name).result is None:
                        events.emit("comparison", path=str(folder), run=name, place=place, of=len(names))
                        if stop():  # now that it is known how to go on
                            raise KeyboardInterrupt
                        resume(folder / name, data=data, **how)
                except OSError:  # of the machine, not of this search
                    raise
                except Exception as error:  # the other searches go on without it
                    _let_go(error)
                    failed[name] = error
    except KeyboardInterrupt:
        given = "" if data is None else ", data=..."
        raise Interrupted(f"stopped; go on with: eclose.compare({str(folder)!r}{given})") from None
    runs = [Run.open(folder / name) for name in names if name not in failed]
    if failed and len({run.config.space.name for run in runs}) < 2:
        raise next(iter(failed.values()))
    told = tuple(f"{name}: {_reason(error)}" for name, error in failed.items())
    compared = Comparison(tuple(run.path for run in runs), standing_of(runs), folder, told)
    with contextlib.suppress(OSError) if ended else contextlib.nullcontext():  # a folder that may only be read
        write_json(folder / COMPARISON, compared.metrics | {"runs": names})
        write_comparison(folder, compared.standing, told)
    return compared


def _let_go(error: BaseException | None) -> None:
    """Forget what its frames hold, such as a network that fills a GPU: the other searches need the memory."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, EcloseError) else f"{type(error).__name__}: {error}"


def _say(event: str, fields: dict[str, Any]) -> None:
    with progress_listener() as show:
        show(event, fields)
