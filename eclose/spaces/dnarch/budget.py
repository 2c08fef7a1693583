"""A budget that is met: the loss of the paper (equation 11), and masks that are moved back where it is left.

A loss alone pulls towards the target and promises nothing. After every step the masks are therefore shifted together,
by as little as it takes, until the network costs what it may.
"""

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from eclose.ops.masks import SigmoidMasks, offset_range
from eclose.train.module_hooks import capturing

Offsets = Mapping[str, tuple[Tensor, Tensor]]  # offset and temperature of tables of masks, by name
Cost = Callable[[Offsets], Tensor]

_STAGGER = 0.25  # masks that are alike would all lose a channel at once: some move by so much less than others
_FINEST = 1e-4  # of an axis
_NEAR = 0.002  # of the target, at the start


class Budget:
    """What a network may cost: ``goal``."""

    def __init__(
        self,
        goal: float,
        *,
        penalty: float,
        growth: float = 1.0,
        epochs: float = 1.0,
        strict: bool = True,
        tolerance: float = 0.03,
    ) -> None:
        self.goal = goal
        self.penalty, self.growth, self.total = penalty, growth, epochs
        self.strict, self.tolerance = strict, tolerance
        self.epochs = 0.0  # done

    def loss(self, cost: float) -> tuple[float, float]:
        """``lambda (C / C_target - 1)^2`` and its derivative; in the end lambda is ``growth`` times what it was."""
        weight, away = self.penalty * self.growth ** min(1.0, self.epochs / self.total), cost / self.goal - 1
        return weight * away**2, 2 * weight * away / self.goal

    @torch.no_grad()
    def met(self, offsets: Offsets, cost: Cost, tolerance: float) -> Offsets:
        """``offsets`` themselves where the cost is within ``tolerance``, else the nearest that are, table by table."""
        point = self._at(offsets, cost)
        for name in offsets:
            if point.away <= tolerance:
                return point.offsets
            point = self._nearest(point, name, cost, tolerance)
        for coarse in reversed(list(offsets)):  # a block more or less is a jump, which finer masks make up for
            if point.away <= tolerance:
                break
            beyond = self._sides(point, coarse, cost, tolerance)[1]
            if beyond.cost == point.cost:  # these masks change nothing
                continue
            for fine in (name for name in offsets if name != coarse):
                if beyond.away > tolerance:
                    beyond = self._nearest(beyond, fine, cost, tolerance)
            point = min((point, beyond), key=_away)
        return point.offsets

    def near(self, cost: float) -> bool:
        """Whether it is within the tolerance."""
        return abs(cost / self.goal - 1) <= self.tolerance

    def _at(self, offsets: Offsets, cost: Cost) -> "_Point":
        return _Point(offsets, float(cost(offsets)) / self.goal)

    def _nearest(self, begin: "_Point", name: str, cost: Cost, tolerance: float) -> "_Point":
        """One table shifted to where the cost is nearest; not at all where that is no nearer."""
        return min((begin, *self._sides(begin, name, cost, tolerance)), key=_away)

    def _sides(self, begin: "_Point", name: str, cost: Cost, tolerance: float) -> tuple["_Point", "_Point"]:
        """One table shifted until the cost is within the tolerance, by bisection: just before that, and then."""
        goal = 1 + tolerance if begin.cost > 1 else 1 - tolerance
        sign = 1.0 if begin.cost < goal else -1.0
        offset, temperature = begin.offsets[name]
        weight = 1 - _STAGGER * torch.linspace(0, 1, max(1, offset.numel())).view(offset.shape).to(offset)

        def at(shift: float) -> "_Point":
            moved = (offset + sign * shift * weight).clamp(*offset_range(temperature))
            return self._at({**begin.offsets, name: (moved, temperature)}, cost)

        near, far, reach = begin, at(0.01), 0.01
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
        return near, far


class _Point(NamedTuple):
    offsets: Offsets
    cost: float  # in units of the goal

    @property
    def away(self) -> float:
        """From the goal."""
        return abs(self.cost - 1)


def _away(point: _Point) -> float:
    return point.away


class _Price(NamedTuple):
    sizes: Hashable
    cost: float
    gradient: Tensor  # by all offsets and temperatures


class Budgeted:
    """A network under masks that stays within its budget. It has tables of masks, and says what they leave costs."""

    budget: Budget | None
    sizes_of_graph: Any = None  # of the step that is captured
    slopes: Tensor | None = None  # the loss of the cost and its gradient, for replays
    _host: tuple[Any, dict[str, Tensor]] = (None, {})
    _priced: _Price | None = None

    @abstractmethod
    def tables(self) -> Mapping[str, torch.nn.Module]:
        """Masks by what they belong to, in the order in which a budget changes them."""

    @abstractmethod
    def cost(self, offsets: Offsets) -> Tensor:  # ()
        """What the network costs under these masks, whose numbers are on the CPU."""

    @abstractmethod
    def counted(self, offsets: Offsets) -> Hashable:
        """The whole numbers that :meth:`cost` follows from; with the temperatures, so does its gradient."""

    def offsets(self) -> Offsets:
        """Of all masks that change the cost."""
        tables = self.tables().items()
        return {name: (table.offset, table.temperature) for name, table in tables if isinstance(table, SigmoidMasks)}

    @torch.no_grad()
    def _write(self, offsets: Offsets) -> None:
        for name, (own, _) in self.offsets().items():
            own.copy_(offsets[name][0])

    def begin_at_target(self) -> None:
        """Shift all masks to where the network costs what it may."""
        if self.budget is not None:
            self._write(self.budget.met(self.offsets_on_host(), self.cost, _NEAR))

    def relative(self) -> float:
        """What the network costs now, in units of the target."""
        assert self.budget is not None
        return float(self.cost(self.offsets_on_host())) / self.budget.goal

    def measured(self) -> dict[str, float]:
        """See ``train/module_hooks.py`` (figure 10 of the paper)."""
        return {} if self.budget is None else {"complexity": self.relative()}

    def extra_loss(self) -> Tensor | float:
        """``lambda (C / C_target - 1)^2`` (equation 11), computed on the CPU: a hundred launches less on a GPU."""
        if self.budget is None or not self.offsets():
            return 0.0
        own = torch.cat([tensor.flatten() for pair in self.offsets().values() for tensor in pair])
        slopes = self.slopes if capturing() else self._slopes(self.budget).to(own.device, non_blocking=True)
        assert slopes is not None
        return slopes[0] + (slopes[1:] * (own - own.detach())).sum()

    def _slopes(self, budget: Budget) -> Tensor:
        """The loss and its gradient, on the CPU."""
        price = self._price()
        loss, slope = budget.loss(price.cost)
        return torch.cat([torch.tensor([loss]), slope * price.gradient])

    def _price(self) -> _Price:
        """The cost and its gradient, made anew when a size has changed: most steps change none."""
        own = self.offsets_on_host(known=True)
        sizes = self.counted(own), str([temperature.tolist() for _, temperature in own.values()])
        if self._priced is None or self._priced.sizes != sizes:
            flat = [tensor.clone().requires_grad_() for pair in own.values() for tensor in pair]
            parts = iter(flat)
            with torch.enable_grad():
                cost = self.cost({name: (next(parts), next(parts)) for name in own})
            grads = torch.autograd.grad(cost, flat, allow_unused=True, materialize_grads=True)
            self._priced = _Price(sizes, cost.item(), torch.cat([each.flatten() for each in grads]))
        return self._priced

    def on_host(self, *, known: bool = False) -> dict[str, Tensor]:
        """The parameters of all masks on the CPU; they come from the device at once.

        ``known``: as they were the last time, unless torch has seen a change. In a pass nobody waits for them again;
        it would miss a step of a fused optimiser, which torch does not see.
        """
        own = {f"{name}.{part}": p.detach() for name, t in self.tables().items() for part, p in t.named_parameters()}
        key = [(parameter.data_ptr(), parameter._version) for parameter in own.values()]
        if not known or self._host[0] != key:
            flat = torch.cat([value.flatten() for value in own.values()]).cpu()
            parts = zip(own.items(), flat.split([value.numel() for value in own.values()]), strict=True)
            self._host = key, {name: part.view(value.shape) for (name, value), part in parts}
        return self._host[1]

    def offsets_on_host(self, *, known: bool = False) -> Offsets:
        """See :meth:`offsets` and :meth:`on_host`."""
        host = self.on_host(known=known)
        return {name: (host[f"{name}.offset"], host[f"{name}.temperature"]) for name in self.offsets()}

    @abstractmethod
    def rendered(self, *, known: bool = False) -> Hashable:
        """All sizes that are computed now; ``known``: see :meth:`on_host`."""

    def shape_key(self) -> Hashable:
        """See ``train/module_hooks.py``. Sizes and the loss, which a graph cannot compute, are written down for it."""
        self.sizes_of_graph = self.rendered(known=True)  # masks move in steps, and after each they were read
        if self.budget is not None and self.offsets():
            slopes = self._slopes(self.budget)
            if self.slopes is None:
                self.slopes = slopes.to(next(iter(self.offsets().values()))[0].device, copy=True)
            self.slopes.copy_(slopes)
        return self.sizes_of_graph

    def before_step(self, epochs: float) -> None:
        """See ``train/module_hooks.py``."""
        if self.budget is not None:
            self.budget.epochs = epochs

    @torch.no_grad()
    def after_step(self) -> None:
        """Clamp the masks, then move them to where the budget is met: few numbers, so that is quickest on the CPU."""
        for table in self.tables().values():
            table.clamp()  # type: ignore[operator]
        if self.budget is not None and self.budget.strict:
            own = self.offsets_on_host()
            if own and not self.budget.near(self._price().cost):
                self._write(self.budget.met(own, self.cost, self.budget.tolerance))
