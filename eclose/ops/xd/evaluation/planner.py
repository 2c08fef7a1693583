"""Which order of evaluation is cheapest: multiplications, and numbers moved, of one forward pass."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from eclose.ops.kaleidoscope import monarch, stages
from eclose.ops.xd.axes.axis import Axis
from eclose.ops.xd.evaluation.shifts.sandwich_gpu import WIDEST
from eclose.ops.xd.gates import Gates

Depth = tuple[int, ...]
"""Blocks of K, L and M."""


@dataclass(frozen=True)
class OrderCost:
    """Real multiplications, and numbers moved to memory and back.

    Those are of shifted signals, of spectra, and of spectra whose parts are put side by side between two axes.
    """

    products: float
    signals: float = 0
    spectra: float = 0
    turned: float = 0

    def __add__(self, other: "OrderCost") -> "OrderCost":
        return OrderCost(
            self.products + other.products,
            self.signals + other.signals,
            self.spectra + other.spectra,
            self.turned + other.turned,
        )

    def at(self, rates: "OrderCost") -> float:
        """One number, for comparison."""
        products, signals = self.products * rates.products, self.signals * rates.signals
        return products + signals + self.spectra * rates.spectra + self.turned * rates.turned


RATES = {"cpu": OrderCost(1, 4, 65), "cuda": OrderCost(1, 550, 116, 1150)}
"""What each of these costs, by kind of device, fitted to measured layers.

On a CPU the samples that a shift order works on stay in the caches, spectra and the filters of all frequencies do not.
On a GPU products cost little, and traffic decides.
"""

_SMALLEST = {"cpu": 1, "cuda": 16}
"""Products at every frequency take as long as if there were so many samples and channels."""

MIDDLE = 50
"""How often a number is moved in the shifts of a middle axis: tap by tap, in small products of four parts."""

_KERNELS = 0.68
"""How much is left on a GPU of the traffic of the sandwich order where kernels of its own serve it."""

_MOVED = {"cpu": 0, "cuda": 2}
"""How often the merged order moves the filters of a frequency: on a CPU they stay in the caches."""

CALLS = {"cpu": 8e7, "cuda": 5e9}
"""Multiplications that take as long as the many small steps that the merged order has and the others have not."""


@lru_cache(1024)  # asked in every forward pass
def plan(
    batch: int,
    c_in: int,
    c_out: int,
    groups: int,
    axes: tuple[Axis, ...],
    device_type: str = "cpu",
    *,
    bias: bool = True,
    gates: Gates = True,
    causal: bool = False,
    depth: Depth = (1, 1, 1),
) -> str:
    """The name of the cheapest order; causal operations have no frequency order, and the merged one needs one axis.

    Depth counts where there is a choice: orders with dense matrices multiply blocks once, the merged one sends every
    signal through all of them.
    """
    rates = RATES.get(device_type, RATES["cuda"])
    smallest = _SMALLEST.get(device_type, _SMALLEST["cuda"])
    by_order = costs(batch, c_in, c_out, groups, axes, bias=bias, gates=gates, smallest=smallest)
    if device_type != "cpu" and _kernels(c_in // groups, c_out // groups, _gated(axes, gates)):
        by_order["sandwich"] = replace(by_order["sandwich"], signals=_KERNELS * by_order["sandwich"].signals)
    if causal:
        by_order = {order: cost for order, cost in by_order.items() if order not in ("frequency", "flat")}
    totals = {order: cost.at(rates) for order, cost in by_order.items()}
    if not causal and len(axes) == 1 and axes[0].merges:
        dense = dense_cost(axes[0].transform, depth).at(rates)
        totals = {order: total + dense for order, total in totals.items()}
        calls = CALLS.get(device_type, CALLS["cuda"])
        moved = _MOVED.get(device_type, _MOVED["cuda"])
        merged = merged_cost(batch, c_in, c_out, groups, _gated(axes, gates)[0], moved, depth)
        totals["merged"] = merged.at(rates) + calls
    return min(totals, key=lambda order: totals[order])


def costs(
    batch: int,
    c_in: int,
    c_out: int,
    groups: int,
    axes: Sequence[Axis],
    *,
    bias: bool = True,
    gates: Gates = True,
    smallest: int = 1,
) -> dict[str, OrderCost]:
    """What each order costs."""
    axes, kinds = _gated(axes, gates), 2 if gates == "complex" else 1
    sizes, outs = [axis.size for axis in axes], [axis.out for axis in axes]
    kernels, grid = [axis.kernel for axis in axes], [axis.transform for axis in axes]
    pairs = c_out * c_in / groups
    # Every frequency has filters of its own, which a small batch reads for little work.
    rows, columns = max(batch, smallest), groups * max(c_out // groups, smallest)
    filters = columns * max(c_in // groups, smallest)
    mixing = OrderCost(4 * math.prod(grid) * batch * pairs, spectra=2 * math.prod(grid) * (rows * columns + filters))
    frequency = _transform(batch * c_in, sizes, grid) + _transform(pairs, kernels, grid) + mixing
    frequency += _transform(batch * c_out, outs, grid)
    flat = _flat(batch * c_in, sizes, grid) + _flat(pairs, kernels, grid) + mixing + _flat(batch * c_out, outs, grid)
    if len(axes) == 1 and bias:
        axes, bias = [_with_taps(axes[0], kinds)], False
    parts = 1 if len(axes) == 1 else 2
    shifts = OrderCost(2 * parts * sum(a.kernel * a.out * a.transform * a.size for a in axes))
    if bias:
        rows = batch * (c_out if gates else groups)
        shifts += _transform(kinds * rows, sizes, grid) + _transform(rows, outs, grid)
        points = kinds * math.prod(sizes)
        shifts += OrderCost(batch * pairs * points if gates else 0, spectra=rows * points)
        shifts += OrderCost(8 * rows * math.prod(grid) if kinds == 2 else 0)  # where b and i b meet
    return {
        "frequency": frequency,
        **({"flat": flat} if len(sizes) > 1 else {}),
        "sandwich": _sandwich(batch, c_in, c_out, pairs, axes) + shifts,
        "im2col": _im2col(batch, c_in, c_out, pairs, axes) + shifts,
    }


def dense_cost(n: int, depth: Depth) -> OrderCost:
    """What it costs to make K, L and M of one axis, real and imaginary part, from their blocks."""
    # A block is written twice while its stages are joined, a product of blocks once.
    blocks, joints = sum(depth), sum(depth) - len(depth)
    return OrderCost(4 * joints * n**3, spectra=(4 * blocks + 2 * joints) * n**2)


def merged_cost(
    batch: int,
    c_in: int,
    c_out: int,
    groups: int,
    axis: Axis,
    moved: int = 0,
    depth: Depth = (1, 1, 1),
) -> OrderCost:
    """What the merged order costs, K, L and M having a stage for every prime factor."""
    n, pairs = axis.transform, c_out * c_in / groups
    outer, filters, inner = (_factors(n, blocks) for blocks in depth)
    # Factors inside of a matrix are joints of two blocks.
    joints = sum(size**2 for chain in (outer, filters, inner) for size in chain[1:-1])
    cost = OrderCost(4 * n * (sum(filters) * axis.kernel + joints), spectra=4 * n * axis.kernel * depth[1])
    for rows, chain, blocks in ((batch * c_in, inner, depth[2]), (batch * c_out, outer, depth[0])):
        # Signals are real at one end, the side of the first factor here.
        cost += OrderCost(rows * n * (2 * chain[0] + 4 * sum(chain[1:])), spectra=4 * rows * n * blocks)
    cost += OrderCost(2 * n * pairs * axis.kernel, spectra=2 * n * pairs * moved)
    return cost + OrderCost(4 * n * batch * pairs, spectra=2 * n * batch * c_out)


def _factors(n: int, depth: int) -> list[int]:
    """Sizes of the factors of a matrix, from the side that M begins with and odd depths of K end with."""
    high, low = monarch.halves(stages(n, n))
    return [low if place % 2 else high for place in range(depth + 1)]


def _gated(axes: Sequence[Axis], gates: Gates) -> Sequence[Axis]:
    """With the taps that complex gates make on the last axis, where taps are not complex already."""
    *others, last = axes
    return [*others, _with_taps(last, last.kernel)] if gates == "complex" and not last.pairs else axes


def _with_taps(axis: Axis, more: int) -> Axis:
    """So many more taps, and no output less."""
    return replace(axis, kernel=axis.kernel + more, right=axis.right + more * axis.dilation)


def _kernels(c_in: int, c_out: int, axes: Sequence[Axis]) -> bool:
    """Whether the sandwich order has kernels of its own, for channels of a group."""
    return len(axes) == 2 and max(c_out * axes[0].kernel, c_in * axes[1].kernel) <= WIDEST


def _transform(rows: float, sizes: Sequence[int], grid: Sequence[int]) -> OrderCost:
    """A matrix along every axis, from the last to the first."""
    products = moved = turned = 0.0
    now, parts = rows * math.prod(sizes), 1
    for size, n in zip(reversed(sizes), reversed(grid), strict=True):
        products += 2 * parts * now * n
        turned += 2 * now if parts == 2 else 0
        now, parts = now / size * n, 2
        moved += 2 * now
    return OrderCost(products, spectra=moved, turned=turned)


def _flat(rows: float, sizes: Sequence[int], grid: Sequence[int]) -> OrderCost:
    """One matrix for all axes, which has to be made."""
    n, m = math.prod(sizes), math.prod(grid)
    return _transform(rows, [n], [m]) + OrderCost(4 * n * m, spectra=4 * n * m)


def _spread(batch: int, c_in: int, axes: Sequence[Axis]) -> tuple[OrderCost, float]:
    """Shifts along all axes but the first, and the size of what comes out, real and imaginary part apart."""
    cost, now, parts = OrderCost(0), float(batch * c_in * math.prod(axis.size for axis in axes)), 1
    for axis in reversed(axes[1:]):
        products, passes = 2 * parts * now * axis.kernel * axis.out, 2 if parts == 1 else MIDDLE
        now, parts = now / axis.size * axis.kernel * axis.out, 2
        cost += OrderCost(products, passes * now)
    return cost, now


def _sandwich(batch: int, c_in: int, c_out: int, pairs: float, axes: Sequence[Axis]) -> OrderCost:
    cost, now = _spread(batch, c_in, axes)
    parts, first = (1 if len(axes) == 1 else 2), axes[0]
    mixed = now / c_in * c_out / math.prod(axis.kernel for axis in axes[1:]) * first.kernel
    cost += OrderCost(parts * now * pairs / c_in * first.kernel, parts * mixed)
    return cost + OrderCost(parts * mixed * first.out, mixed / first.kernel)


def _im2col(batch: int, c_in: int, c_out: int, pairs: float, axes: Sequence[Axis]) -> OrderCost:
    cost, now = _spread(batch, c_in, axes)
    parts, first = (1 if len(axes) == 1 else 2), axes[0]
    columns = now / first.size * first.kernel * first.out
    cost += OrderCost(parts * now * first.kernel * first.out, columns)
    return cost + OrderCost(columns * pairs / c_in, columns / c_in * c_out)
