"""Registered tasks: functions that give arrays and say how to read them, and the data folder that they read from."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from eclose.errors import TaskError
from eclose.registry import Registry
from eclose.runs import cache_folder
from eclose.tasks.own_data.files import Array, read_arrays
from eclose.tasks.own_data.reading import Reading

tasks = Registry("task")

Progress = Callable[[int, int], None]
Pairs = dict[str, tuple[Array, Array]]  # train, val, test -> x, y


@dataclass(frozen=True)
class Context:
    """What a source may use: the folder of downloaded data, and a place to report progress."""

    data_folder: Path
    progress: Progress


@dataclass(frozen=True)
class Source:
    """Arrays named as in a user's file, with their reading."""

    arrays: Mapping[str, Array]
    reading: Reading


def named(pairs: Pairs) -> dict[str, Array]:
    """``x_train, y_train, ...``, as in a user's file."""
    xs = {f"x_{part}": x for part, (x, _) in pairs.items()}
    return {**xs, **{f"y_{part}": y for part, (_, y) in pairs.items()}}


def data_folder(given: str = "") -> Path:
    """``--data-dir``, then ``$ECLOSE_DATA``, then ``data`` in the cache folder."""
    chosen = given or os.environ.get("ECLOSE_DATA")
    return Path(chosen).expanduser() if chosen else cache_folder() / "data"


def stored_file(context: Context, relative: str, content: str) -> Path:
    """Where the file lies; the error says what to put there."""
    path = context.data_folder / relative
    if not path.is_file():
        raise TaskError(
            f"{path} is missing: put {relative} ({content}) into the data folder, "
            "or name another folder with --data-dir or $ECLOSE_DATA"
        )
    return path


def stored_arrays(path: Path, names: tuple[str, ...]) -> dict[str, Array]:
    """All arrays of ``names``."""
    data = read_arrays(path, names)
    if missing := [name for name in names if name not in data]:
        raise TaskError(f"{path} has no array '{missing[0]}': it is another file than the task needs")
    return data
