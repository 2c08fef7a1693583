"""Registered tasks: functions that give arrays and say how to read them, and the data folder that they read from."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eclose.errors import TaskError
from eclose.registry import Registry
from eclose.runs import atomic_path, cache_folder
from eclose.tasks.own_data.files import Array, read_arrays
from eclose.tasks.own_data.reading import Reading
from eclose.tasks.splits import divide

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


def hold_out(pairs: Pairs, val: int, alike: bool = False) -> Pairs:
    """The last ``val`` training samples for validation; with 0 the test samples also validate, as papers did.

    ``alike``: as many of every class, wherever they stand.
    """
    x, y = pairs["train"]
    if not 0 <= val < len(x):
        raise TaskError(f"task.val is {val}, but must lie between 0 and {len(x) - 1}")
    if val == 0:
        return {**pairs, "val": pairs["test"]}
    if alike:
        return {**pairs, **divided(x, y, {"train": len(x) - val, "val": val})}
    return {**pairs, "train": (x[:-val], y[:-val]), "val": (x[-val:], y[-val:])}


def divided(x: Array, y: Array, shares: dict[str, float]) -> Pairs:
    """Samples with their classes in shares of equal mixture."""
    parts = divide(len(x), shares, torch.from_numpy(y.astype(np.int64)))
    return {part: (x[rows.numpy()], y[rows.numpy()]) for part, rows in parts.items()}


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


def check_range(name: str, least: int, most: int, **options: int) -> None:
    """Refuse options of a task that lie outside."""
    for option, value in options.items():
        if not least <= value <= most:
            raise TaskError(f"task {name}: {option} is {value}, but must lie between {least} and {most}")


def check_seed(name: str, seed: int) -> None:
    """Refuse a seed that random number generators do not take."""
    if not 0 <= seed < 2**63:
        raise TaskError(f"task {name}: seed must lie between 0 and 2**63 - 1, got {seed}")


def kept(stem: str, known: Mapping[str, Any], make: Callable[[], Mapping[str, Array]]) -> dict[str, Array]:
    """The arrays (named as in a user's file) that ``make`` gives, from the cache where they are there already.

    ``known`` holds all that they follow from; ``stem`` begins the name of their file.
    """
    digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()
    path = cache_folder() / "generated" / f"{stem}-{digest[:16]}.npz"
    if not path.is_file():
        arrays: dict[str, Any] = dict(make())
        with atomic_path(path) as temporary, open(temporary, "wb") as file:
            np.savez(file, **arrays)
    try:
        return read_arrays(path)
    except TaskError as error:
        raise TaskError(f"delete the cached data {path}, it is damaged: {error}") from None


def generated_once(
    name: str,
    stem: str,
    known: Mapping[str, Any],
    make: Callable[[int], tuple[Array, Array]],
    seed: int,
    train: int,
    val: int,
    test: int,
) -> dict[str, Array]:
    """``x_train, y_train, ...`` of ``make(count)``, :func:`kept`: the first samples train, the last test.

    ``known`` is all that they follow from besides the seed and their number.
    """
    check_seed(name, seed)
    sizes = {"train": train, "val": val, "test": test}
    if min(sizes.values()) < 1:
        raise TaskError(f"task {name}: train, val and test must be at least 1, got {sizes}")
    count = sum(sizes.values())
    data = kept(stem, {**known, "seed": seed, "count": count}, lambda: dict(zip("xy", make(count), strict=True)))
    arrays, start = {}, 0
    for part, size in sizes.items():
        for array in ("x", "y"):
            arrays[f"{array}_{part}"] = data[array][start : start + size]
        start += size
    return arrays
