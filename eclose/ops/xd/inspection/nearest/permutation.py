"""The nearest permutation followed by a convolution (Roberts et al. 2021, Claim A.4; permuted images, section 4)."""

import cmath

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eclose.ops.xd.axes.axis import Axis
from eclose.ops.xd.inspection.linear_map import LinearMap
from eclose.ops.xd.inspection.nearest.convolution import rate_of
from eclose.ops.xd.inspection.nearest.named_operation import Named, spoken
from eclose.ops.xd.inspection.nearest.reading import reading


def permutation_then_convolution(linear_map: LinearMap) -> Named | None:
    """A permutation of the inputs of every axis, then the convolution of the start; None where nothing moves.

    With the shifts S of the start, ``||T - a S P||`` is least for the permutation P with the largest product
    with ``S^T T``, since all of them leave the norm of S alone: a linear assignment.
    """
    if linear_map.causal or not linear_map.weighted:
        return None
    fits = [_fit(axis, shifts) for axis, shifts in zip(linear_map.axes, linear_map.shifts, strict=True)]
    moved = tuple((permutation != torch.arange(len(permutation))).double().mean().item() for permutation, _ in fits)
    if not any(moved):
        return None
    return Named(
        "permutation, then convolution",
        f"moving {spoken([round(100 * share) for share in moved])} % of the points",
        {"order": tuple(tuple(permutation.tolist()) for permutation, _ in fits), "moved": moved},
        linear_map.residual(shifts=[fitted for _, fitted in fits]),
    )


def _fit(axis: Axis, shifts: Tensor) -> tuple[Tensor, Tensor]:
    """Permutation and fitted T of one axis: the convolution sees input ``permutation[v]`` at place v."""
    unit = reading(axis).shifts(axis.dilation * torch.arange(axis.kernel) - axis.left)
    products = unit.flatten(0, 1).mT @ shifts.flatten(0, 1)  # (size, size)
    # Of a complex multiple of a permutation the squares tell the phase up to the sign, the cubes the sign.
    turned = products * cmath.exp(-0.5j * cmath.phase(complex(products.square().sum())))
    real = turned.real * turned.real.pow(3).sum().sign()
    permutation = torch.from_numpy(assignment(real.numpy()))
    fitted = unit[..., torch.argsort(permutation)]
    return permutation, rate_of(shifts, fitted) * fitted


def assignment(profit: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:  # (n, n)
    """Linear assignment by shortest augmenting paths (Kuhn, Munkres; Jonker and Volgenant).

    Columns ``(n,)``, one for every row and each used once, with the largest sum of profits.

    Prices of columns make every row's own column its best one, for a growing set of rows. A new row enters along
    the path that costs least, found as by Dijkstra. ``O(n^3)``.
    """
    size = len(profit)
    cost = -profit
    prices = np.zeros(size)
    row_of = np.full(size, -1)  # of every column
    column_of = np.full(size, -1)  # of every row
    for row in range(size):
        came, end, done, lengths = _shortest(row, cost, prices, row_of, column_of)
        prices[done] += lengths[done] - lengths[end]
        while True:
            here = came[end]
            row_of[end] = here
            end, column_of[here] = column_of[here], end
            if here == row:
                break
    return column_of


def _shortest(
    row: int,
    cost: npt.NDArray[np.float64],
    prices: npt.NDArray[np.float64],
    row_of: npt.NDArray[np.int64],
    column_of: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], int, npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    """The way from a new row to a free column: whence each column was reached, the last one, those done, lengths."""
    lengths = np.full(len(cost), np.inf)
    came = np.full(len(cost), row)
    done = np.zeros(len(cost), dtype=bool)
    here, gone = row, 0.0
    while True:
        reduced = cost[here] - prices
        own = column_of[here]
        through = gone + reduced - (reduced[own] if own >= 0 else 0.0)
        better = ~done & (through < lengths)
        lengths[better], came[better] = through[better], here
        nearest = int(np.argmin(np.where(done, np.inf, lengths)))
        if row_of[nearest] < 0:
            return came, nearest, done, lengths
        done[nearest] = True
        here, gone = int(row_of[nearest]), float(lengths[nearest])
