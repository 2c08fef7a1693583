"""Registered tasks: functions that give arrays and say how to read them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from eclose.registry import Registry
from eclose.tasks.arrays import Reading
from eclose.tasks.files import Array

tasks = Registry("task")

Progress = Callable[[int, int], None]


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
