"""Physics tasks: generated on the spot by our own solvers, kept in the cache."""

import hashlib
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from eclose.errors import TaskError
from eclose.runs import atomic_path, cache_folder
from eclose.tasks import burgers as burgers_equation
from eclose.tasks import darcy as darcy_flow
from eclose.tasks import plucked_string as string
from eclose.tasks.files import Array, read_arrays
from eclose.tasks.reading import Reading
from eclose.tasks.source import Context, Source, tasks

_MOST_POINTS = 8192
_SOLVER = 1  # raise it when a solver's output changes: old cache files are then ignored


@tasks.register("burgers")
def burgers(
    context: Context,
    *,
    points: int = 256,
    viscosity: float = 0.01,
    constant_mode: bool = True,
    time: float = 1.0,
    train: int = 1000,
    val: int = 100,
    test: int = 200,
    seed: int = 0,
) -> Source:
    """Burgers' equation, periodic: from the field at time 0 to the field at `time`; generated."""
    setting: dict[str, Any] = {"viscosity": viscosity, "constant_mode": constant_mode, "time": time}

    def generate(count: int) -> tuple[Tensor, Tensor]:
        return burgers_equation.generate(count, points, seed=seed, progress=context.progress, **setting)

    sizes = {"train": train, "val": val, "test": test}
    return Source(_cached("burgers", generate, sizes, points, seed, setting), Reading(kind="dense", axes=1))


@tasks.register("darcy")
def darcy(
    context: Context,
    *,
    points: int = 85,
    train: int = 1000,
    val: int = 100,
    test: int = 100,
    seed: int = 0,
) -> Source:
    """Darcy flow: from a two-valued permeability to the pressure on the unit square; generated."""

    def generate(count: int) -> tuple[Tensor, Tensor]:
        return darcy_flow.generate(count, points, seed=seed, progress=context.progress)

    sizes = {"train": train, "val": val, "test": test}
    return Source(_cached("darcy", generate, sizes, points, seed, {}), Reading(kind="dense", axes=2))


@tasks.register("plucked-string")
def plucked_string(
    context: Context,
    *,
    points: int = 128,
    stiffness: float = 3.0,
    time: float = 1.0,
    train: int = 1000,
    val: int = 100,
    test: int = 200,
    seed: int = 0,
) -> Source:
    """A string between two walls on a bed that stiffens: from its shape at rest to that at `time`; generated."""
    setting: dict[str, Any] = {"stiffness": stiffness, "time": time}

    def generate(count: int) -> tuple[Tensor, Tensor]:
        return string.generate(count, points, seed=seed, progress=context.progress, **setting)

    sizes = {"train": train, "val": val, "test": test}
    return Source(_cached("plucked-string", generate, sizes, points, seed, setting), Reading(kind="dense", axes=1))


def _cached(
    name: str,
    generate: Callable[[int], tuple[Tensor, Tensor]],
    sizes: dict[str, int],
    points: int,
    seed: int,
    setting: dict[str, Any],
) -> dict[str, Array]:
    """The first functions train, the next validate, the last test; float32, in one file of the cache."""
    if min(sizes.values()) < 1:
        raise TaskError(f"task {name}: train, val and test must be at least 1, got {sizes}")
    if not 2 <= points <= _MOST_POINTS:
        raise TaskError(f"task {name}: points is {points}, but must lie between 2 and {_MOST_POINTS}")
    for option, value in setting.items():
        if not math.isfinite(value):
            raise TaskError(f"task {name}: {option} must be finite, got {value}")
    if not 0 <= seed < 2**63:
        raise TaskError(f"task {name}: seed must lie between 0 and 2**63 - 1, got {seed}")
    count = sum(sizes.values())
    key = json.dumps({"solver": _SOLVER, "points": points, "seed": seed, "count": count, **setting}, sort_keys=True)
    stem = f"{name}-{points}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    path = cache_folder() / "generated" / f"{stem}.npz"
    if not path.is_file():
        try:
            x, y = generate(count)
        except ValueError as error:
            raise TaskError(f"task {name}: {error}") from None
        with atomic_path(path) as temporary, open(temporary, "wb") as file:
            np.savez(file, x=x.float().numpy(), y=y.float().numpy())
    try:
        data = read_arrays(path, ("x", "y"))
    except TaskError as error:
        raise TaskError(f"delete the cached data {path}, it is damaged: {error}") from None
    arrays, start = {}, 0
    for part, size in sizes.items():
        for array in ("x", "y"):
            arrays[f"{array}_{part}"] = data[array][start : start + size]
        start += size
    return arrays
