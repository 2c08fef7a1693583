"""What a search over XD-operations found: how far each operation moved, and which known one it is now nearest to."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from torch import nn

from eclose.errors import ConfigError
from eclose.ops.xd import XD, Axis, Distances, Named, distances, nearest_gates, nearest_operations
from eclose.ops.xd.inspection.distance import is_small

UNLIKE = 0.7
"""From this residual on, the nearest known operation is no description: half of the energy is something else."""

_LEAST = 192
"""Operations on fewer points take no less time."""

_A_TAP = 64
"""Measured on 320 and 720 points: what a tap takes, in numbers of its shift tensor, beside products of matrices."""


@dataclass(frozen=True)
class Found:
    """One XD-operation of a network; ``nearest`` and ``gates`` have the nearest first.

    ``nearest`` is empty where the start was no convolution, pooling or skip, and where a signal is too long.
    """

    path: str
    start: str
    distances: Distances
    nearest: tuple[Named, ...]
    gates: tuple[Named, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        """In words: ``conv1: convolution with dilation 2, residual 3.1 % (started as convolution, moved by 1.2)``."""
        return f"{self.path}: {self.likeness} (started as {self.start}, moved by {self.moved:.2g})"

    @property
    def likeness(self) -> str:
        """The known operation that it is nearest to, in words."""
        if not self.nearest:
            return "not compared with known operations"
        nearest = self.nearest[0]
        return str(nearest) if nearest.residual < UNLIKE else f"unlike any known operation (nearest: {nearest})"

    @property
    def moved(self) -> float:
        """How far it is from its start: as an operation where that is known, else by its entries."""
        return self.distances.entries if self.distances.operation is None else self.distances.operation


def found_operations(model: nn.Module, work: float = math.inf) -> list[Found]:
    """Every XD-operation of a network: distances from its start and the nearest known operations.

    Dense matrices take time: with a limit on ``work`` they are made for the operations whose entries moved farthest.
    """
    if not isinstance(model, nn.Module):
        raise ConfigError(f"a network is described, an nn.Module, not {type(model).__name__}; eclose.load opens a run")
    operations = [(path, module) for path, module in model.named_modules() if isinstance(module, XD)]
    if not operations:
        raise ConfigError("nothing to describe: the network has no XD-operation (eclose.relax makes them)")
    for path, operation in operations:
        if not all(bool(parameter.isfinite().all()) for parameter in operation.parameters()):
            raise ConfigError(f"'{path}' has parameters that are not finite: nothing can be said of it")
    chosen = _most_moved([operation for _, operation in operations], work)
    return [_found(path, operation, operation in chosen) for path, operation in operations]


def _most_moved(operations: list[XD], work: float) -> list[XD]:
    """Those that dense matrices are made for, as long as it takes no more than ``work``."""
    if math.isinf(work):
        return operations
    chosen = []
    for operation in sorted(operations, key=lambda each: -distances(each, dense=False).entries):
        needed = _work(operation)
        if needed <= work:
            work -= needed
            chosen.append(operation)
    return chosen


def _work(operation: XD) -> float:
    """Products of its dense matrices, by size and depth, and what every tap is compared with, along each axis."""
    depth = max(operation.architecture.depth)
    return sum(
        max(axis.transform**3 * (7 + depth) / 8 + _A_TAP * axis.kernel * axis.transform**2, _LEAST**3)
        for axis in operation.axes
    )


def _found(path: str, operation: XD, dense: bool) -> Found:
    return Found(
        path,
        _start(operation),
        distances(operation, dense=dense),
        tuple(nearest_operations(operation)) if dense and _comparable(operation) else (),
        tuple(nearest_gates(operation)),
    )


def _comparable(operation: XD) -> bool:
    return operation.axes[0].kind == Axis.kind and is_small(operation)


def _start(operation: XD) -> str:
    if operation.architecture.drawn:
        return "random operation"
    if operation.tap is None:
        return operation.axes[0].kind
    if operation.tap == 0:
        return "zero"
    return "average pooling" if max(axis.kernel for axis in operation.axes) > 1 else "skip"
