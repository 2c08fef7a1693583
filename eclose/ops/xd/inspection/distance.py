"""How far an XD-operation has moved from its start (the proxy for novelty of Roberts et al. 2021, Figure 2).

The paper takes the distance of the entries. They are not unique: neighbouring stages may be scaled against each other
and the matrix stays what it is. K, L and M are therefore compared as matrices, in the rows and columns that the
operation uses. They too may be scaled against each other; ``operation`` compares what all of them together do.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from eclose.ops.xd.algebra import kronecker_norms
from eclose.ops.xd.inspection.linear_map import LinearMap, free_product, in_double, linear_map_of, start_of
from eclose.ops.xd.operation import XD

LARGEST_SHIFTS = 2**25
"""Numbers in a shift tensor: 17 taps of 1400 points."""


@dataclass(frozen=True)
class Distances:
    """Relative Euclidean distances from the start: 0 where nothing moved, None where there is no b or C.

    Of signals too long for dense matrices only b, C and the entries are compared.
    Where the start is zero, L is measured by L of a convolution, b by ``b = 1`` and the operation by the skip
    that ``b = 1`` makes.
    """

    K: float | None
    L: float | None
    M: float | None
    b: float | None
    C: float | None
    operation: float | None
    entries: float  # of all architecture parameters, as in the paper


def is_small(operation: XD) -> bool:
    """Whether shift tensors of the operation can be made."""
    return max(axis.kernel * axis.out * axis.size for axis in operation.axes) <= LARGEST_SHIFTS


@torch.no_grad()
def distances(operation: XD, *, dense: bool = True) -> Distances:
    """How far the parts of an operation, and the whole, are from where they started.

    Without ``dense`` matrices, or where they would be too large, K, L, M and the operation are left out.
    """
    arch, start = in_double(operation.architecture), start_of(operation.architecture)
    whole = dense and is_small(operation)
    parts: list[float | None] = [] if whole else [None] * 3
    for now, before in zip(arch.matrices(operation.axes), start.matrices(operation.axes), strict=True) if whole else ():
        ours, theirs = ([torch.complex(*matrix) for matrix in part] for part in (now, before))
        # All entries of the Fourier transform have modulus 1.
        usual = math.sqrt(math.prod(matrix.numel() for matrix in theirs))
        parts.append(kronecker_norms.distance(ours, theirs) / (kronecker_norms.norm(theirs) or usual))
    moved = [(now - before).norm().item() for now, before in zip(arch.parameters(), start.parameters(), strict=True)]
    return Distances(
        K=parts[0],
        L=parts[1],
        M=parts[2],
        b=_relative(arch.b, start.b, math.sqrt(math.prod(axis.transform for axis in operation.axes))),
        C=_relative(arch.C, start.C, 1.0),
        operation=_moved(linear_map_of(operation, arch), linear_map_of(operation, start)) if whole else None,
        entries=math.hypot(*moved) / math.hypot(*(before.norm().item() for before in start.parameters())),
    )


def _relative(now: Tensor | None, before: Tensor | None, usual: float) -> float | None:
    if now is None or before is None:
        return None
    return (now - before).norm().item() / (before.norm().item() or usual)


def _moved(now: LinearMap, before: LinearMap) -> float:
    weighted = now.rms * kronecker_norms.distance(now.shifts, before.shifts, real=True)
    free = now.free**2 - 2 * free_product(now, before) + before.free**2
    skip = math.sqrt(math.prod(axis.out for axis in now.axes))
    return math.hypot(weighted, math.sqrt(max(0.0, free))) / (before.norm or skip)
