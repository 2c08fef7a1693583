"""Physics tasks: generated on the spot by our own solvers, kept in the cache."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from eclose.errors import TaskError
from eclose.tasks.own_data.files import Array
from eclose.tasks.own_data.reading import Reading
from eclose.tasks.physics import burgers as burgers_equation
from eclose.tasks.physics import darcy as darcy_flow
from eclose.tasks.physics import plucked_string as string
from eclose.tasks.source import Context, Source, check_range, generated_once, tasks

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
        self._check()
        known = {"solver": _SOLVER, "points": self.points, **self.setting}

        def make(count: int) -> tuple[Array, Array]:
            try:
                x, y = self.generate(count, self.points, seed=self.seed, progress=context.progress, **self.setting)
            except ValueError as error:
                raise TaskError(f"task {self.name}: {error}") from None
            return x.float().numpy(), y.float().numpy()

        arrays = generated_once(self.name, f"{self.name}-{self.points}", known, make, self.seed, train, val, test)
        return Source(arrays, Reading(kind="dense", axes=self.axes))

    def _check(self) -> None:
        name = self.name
        check_range(name, 2, _MOST_POINTS, points=self.points)
        for option, value in self.setting.items():
            if not math.isfinite(value):
                raise TaskError(f"task {name}: {option} must be finite, got {value}")
