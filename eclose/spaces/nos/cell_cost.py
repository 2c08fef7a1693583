"""What a network of cells costs, known without building it, and what it may cost."""

from collections.abc import Callable, Sequence
from math import prod

import torch
from torch.utils.flop_counter import FlopCounterMode

from eclose.errors import ConfigError
from eclose.signature import Signature
from eclose.spaces.nos.block import BlockChoice, DropPath
from eclose.spaces.nos.layout import KINDS, Layout
from eclose.spaces.nos.network import Cells, ChosenNetwork
from eclose.spaces.nos.operations import DYNAMIC, OPERATIONS, SKIP, Site, cost_of
from eclose.spaces.operation import FREE, Cost

FIGURES = ("parameters", "flops")
_DRAWS = 1000  # until one is within the limits


def with_application(name: str, site: Site) -> Cost:
    """Of an operation, with the convolution that applies the kernels it makes."""
    cost = cost_of(name, site)
    if OPERATIONS[name].kind != DYNAMIC:
        return cost
    shape = OPERATIONS[name].after((), site) or ()
    return cost + Cost(0, 2 * prod(shape) * prod(site.after))


def cost_of_rest(signature: Signature, layout: Layout, blocks: int) -> Cost:
    """Of everything but operations: measured on cells of operations that cost nothing, without a tower."""
    block = BlockChoice(((0, "max_pool_3"), (1, "max_pool_3")), SKIP)
    cells = dict.fromkeys(KINDS, (block,) * blocks)
    with torch.device("meta"), torch.no_grad():
        network = ChosenNetwork(signature, layout, cells, 0.0, DropPath(0.0)).eval()
        kind = torch.long if signature.tokens else torch.float32
        with FlopCounterMode(display=False) as counter:
            network(torch.zeros(signature.input_shape(1), dtype=kind))
    return Cost(sum(parameter.numel() for parameter in network.parameters()), int(counter.get_total_flops()))


class Budget:
    """Limits, one for each of ``FIGURES``, and what cells cost beside them; a limit of 0 is none."""

    def __init__(self, signature: Signature, layout: Layout, blocks: int, limits: Sequence[float]) -> None:
        self.layout, self.limits = layout, {name: limit for name, limit in zip(FIGURES, limits, strict=False) if limit}
        self.rest = cost_of_rest(signature, layout, blocks)
        self._known: dict[tuple[str, int, str], Cost] = {}  # many cells are looked at, of few operations

    def cost(self, cells: Cells) -> Cost:
        """Of the whole network; kernels of one tier count one by one."""
        total = self.rest
        for kind, blocks in cells.items():
            for block in blocks:
                chosen = [*block.first, *([] if block.second is None else [(-1, block.second)])]
                for source, name in chosen:
                    total += self._in_all(kind, source, name)
        return total

    def _in_all(self, kind: str, source: int, name: str) -> Cost:
        """Of one choice in all cells of a kind."""
        if (kind, source, name) not in self._known:
            sites = [place.site(source) for place in self.layout.places if place.kind == kind]
            self._known[kind, source, name] = sum((with_application(name, site) for site in sites), FREE)
        return self._known[kind, source, name]

    def exceeded(self, cost: Cost) -> list[tuple[str, float]]:
        """Limits below a cost, by whole numbers: shares of them are rounded."""
        return [(name, limit) for name, limit in self.limits.items() if getattr(cost, name) > limit]

    def check_least(self, cost: Cost, whose: str) -> None:
        """Refuse limits that the cheapest network does not meet."""
        for name, limit in self.exceeded(cost):
            raise ConfigError(
                f"space.{name} is {limit:g}, but {whose} has {getattr(cost, name):,}: "
                "raise it, or lower space.width or space.cells"
            )

    def within(self, draw: Callable[[], Cells]) -> Cells:
        """The first drawn cells that keep the limits; refused after many draws."""
        seen = []
        for _ in range(_DRAWS):
            cells = draw()
            seen.append(self.cost(cells))
            if not self.exceeded(seen[-1]):
                return cells
        least = min(seen, key=lambda cost: max(getattr(cost, name) / limit for name, limit in self.limits.items()))
        self.check_least(least, f"the cheapest of {_DRAWS} drawn networks")
        return cells
