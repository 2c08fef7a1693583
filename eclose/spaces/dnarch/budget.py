"""A budget that is met: the loss of the paper (equation 11), and masks that are moved back where it is left.

A loss alone pulls towards the target and promises nothing. After every step the masks are therefore shifted together,
by as little as it takes, until the network costs what it may.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from eclose.ops.masks import offset_range
from eclose.spaces.dnarch.complexity import BlockSizes, Weighing, complexity

Offsets = Mapping[str, tuple[Tensor, Tensor]]  # offset and temperature of tables of masks, by name
Sizes = Callable[[Offsets], BlockSizes]

_STAGGER = 0.25  # masks that are alike would all lose a channel at once: some move by so much less than others
_FINEST = 1e-4  # of an axis


class Budget:
    """What a network may cost: ``target`` times the cost of a network of the sizes ``base``."""

    def __init__(
        self,
        base: BlockSizes,
        target: float,
        weighing: Weighing,
        hidden: int,
        *,
        penalty: float,
        growth: float = 1.0,
        epochs: float = 1.0,
        strict: bool = True,
        tolerance: float = 0.03,
    ) -> None:
        self.weighing, self.hidden = weighing, hidden
        self.goal = target * float(complexity(base, weighing, hidden))
        self.penalty, self.growth, self.total = penalty, growth, epochs
        self.strict, self.tolerance = strict, tolerance
        self.epochs = 0.0  # done

    def relative(self, sizes: BlockSizes) -> Tensor:
        """``C / C_target``."""
        return complexity(sizes, self.weighing, self.hidden) / self.goal

    def loss(self, sizes: BlockSizes) -> Tensor:
        """``lambda (C / C_target - 1)^2``; by the end lambda has grown to ``growth`` times itself."""
        weight = self.penalty * self.growth ** min(1.0, self.epochs / self.total)
        return weight * (self.relative(sizes) - 1).square()

    @torch.no_grad()
    def met(self, offsets: Offsets, sizes: Sizes, tolerance: float) -> Offsets:
        """``offsets`` themselves where the cost is within ``tolerance``, else the nearest that are, table by table."""
        cost = float(self.relative(sizes(offsets)))
        for name in offsets:
            if abs(cost - 1) <= tolerance:
                break
            goal = 1 + tolerance if cost > 1 else 1 - tolerance
            offsets, cost = self._shifted(offsets, name, sizes, goal, cost)
        return offsets

    def _shifted(self, offsets: Offsets, name: str, sizes: Sizes, goal: float, cost: float) -> tuple[Offsets, float]:
        """One table shifted until the cost passes the goal, by bisection; the side of the goal that is nearer to 1."""
        sign = 1.0 if cost < goal else -1.0
        offset, temperature = offsets[name]
        weight = 1 - _STAGGER * torch.linspace(0, 1, max(1, offset.numel())).view(offset.shape).to(offset)

        def at(shift: float) -> "_Point":
            moved = (offset + sign * shift * weight).clamp(*offset_range(temperature))
            shifted = {**offsets, name: (moved, temperature)}
            return _Point(shifted, float(self.relative(sizes(shifted))))

        near, far, reach = _Point(offsets, cost), at(0.01), 0.01
        low = 0.0
        while sign * (goal - far.cost) > 0 and reach < 4:
            low, near, reach = reach, far, 2 * reach
            far = at(reach)
        while reach - low > _FINEST:
            middle = (low + reach) / 2
            point = at(middle)
            if sign * (goal - point.cost) > 0:
                low, near = middle, point
            else:
                reach, far = middle, point
        return min((near, far), key=lambda point: abs(point.cost - 1))


class _Point(NamedTuple):
    offsets: Offsets
    cost: float
