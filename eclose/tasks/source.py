"""Registered tasks: functions that give arrays and say how to read them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from eclose.registry import Registry
from eclose.tasks.files import Array
from eclose.tasks.reading import Reading

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
