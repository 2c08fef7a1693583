"""Physics tasks: generated on the spot by our own solvers, kept in the cache."""

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from eclose.errors import TaskError
from eclose.runs import atomic_path, cache_folder
from eclose.tasks.own_data.files import Array, read_arrays
from eclose.tasks.own_data.reading import Reading
from eclose.tasks.physics import burgers as burgers_equation
from eclose.tasks.physics import darcy as darcy_flow
from eclose.tasks.physics import plucked_string as string
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
    solver = _Solver("burgers", 1, burgers_equation.generate, points, seed, setting)
    return solver.source(context, train, val, test)


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
    return _Solver("darcy", 2, darcy_flow.generate, points, seed, {}).source(context, train, val, test)


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
    solver = _Solver("plucked-string", 1, string.generate, points, seed, setting)
    return solver.source(context, train, val, test)


@dataclass(frozen=True)
class _Solver:
    """Pairs of fields by an equation's ``generate(count, points, seed=, progress=, **setting)``."""

    name: str
    axes: int
    generate: Callable[..., tuple[Tensor, Tensor]]
    points: int
    seed: int
    setting: dict[str, Any]

    def source(self, context: Context, train: int, val: int, test: int) -> Source:
        """The first fields train, the next validate, the last test."""
        sizes = {"train": train, "val": val, "test": test}
        if min(sizes.values()) < 1:
            raise TaskError(f"task {self.name}: train, val and test must be at least 1, got {sizes}")
        self._check()
        data = self._cached(sum(sizes.values()), context)
        arrays, start = {}, 0
        for part, size in sizes.items():
            for array in ("x", "y"):
                arrays[f"{array}_{part}"] = data[array][start : start + size]
            start += size
        return Source(arrays, Reading(kind="dense", axes=self.axes))

    def _check(self) -> None:
        name = self.name
        if not 2 <= self.points <= _MOST_POINTS:
            raise TaskError(f"task {name}: points is {self.points}, but must lie between 2 and {_MOST_POINTS}")
        for option, value in self.setting.items():
            if not math.isfinite(value):
                raise TaskError(f"task {name}: {option} must be finite, got {value}")
        if not 0 <= self.seed < 2**63:
            raise TaskError(f"task {name}: seed must lie between 0 and 2**63 - 1, got {self.seed}")

    def _cached(self, count: int, context: Context) -> dict[str, Array]:
        """``x`` and ``y``, float32, in one file of the cache."""
        known = {"solver": _SOLVER, "points": self.points, "seed": self.seed, "count": count, **self.setting}
        digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()
        path = cache_folder() / "generated" / f"{self.name}-{self.points}-{digest[:16]}.npz"
        if not path.is_file():
            try:
                x, y = self.generate(count, self.points, seed=self.seed, progress=context.progress, **self.setting)
            except ValueError as error:
                raise TaskError(f"task {self.name}: {error}") from None
            with atomic_path(path) as temporary, open(temporary, "wb") as file:
                np.savez(file, x=x.float().numpy(), y=y.float().numpy())
        try:
            return read_arrays(path, ("x", "y"))
        except TaskError as error:
            raise TaskError(f"delete the cached data {path}, it is damaged: {error}") from None
