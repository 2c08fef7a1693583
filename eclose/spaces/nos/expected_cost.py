"""What the chosen network will cost, as far as a search knows: a sum over operations by their weights."""

from collections.abc import Mapping, Sequence
from math import prod

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from eclose.errors import ConfigError
from eclose.signature import Signature
from eclose.spaces.nos.block import BlockChoice
from eclose.spaces.nos.drop_path import DropPath
from eclose.spaces.nos.evaluation import Cells, EvaluationNetwork
from eclose.spaces.nos.layout import KINDS, Layout
from eclose.spaces.nos.operations import DYNAMIC, OPERATIONS, SKIP, Site, cost_of
from eclose.spaces.nos.supernet import Architecture, Choices
from eclose.spaces.operation import FREE, Cost

FIGURES = ("parameters", "flops")
_FIRST, _RISE, _PRICES = 0.01, 1.1, 200  # of a whole limit, in units of weights: the first price, and those after it
_WHATEVER = 1e12  # a price for which only the cheapest is taken


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
        network = EvaluationNetwork(signature, layout, cells, 0.0, DropPath(0.0)).eval()
        kind = torch.long if signature.tokens else torch.float32
        with FlopCounterMode(display=False) as counter:
            network(torch.zeros(signature.input_shape(1), dtype=kind))
    return Cost(sum(parameter.numel() for parameter in network.parameters()), int(counter.get_total_flops()))


def cost_of_cells(signature: Signature, layout: Layout, cells: Cells) -> Cost:
    """Of a whole network, known without building it; kernels of one tier count one by one."""
    return cost_of_rest(signature, layout, len(cells[KINDS[0]])) + cost_of_operations(layout, cells)


def cost_of_operations(layout: Layout, cells: Cells) -> Cost:
    """Of all that was chosen in all cells."""
    total = FREE
    for place in layout.places:
        for choice in cells[place.kind]:
            chosen = [*choice.first, *([] if choice.second is None else [(-1, choice.second)])]
            for source, name in chosen:
                total += with_application(name, place.site(source))
    return total


def prices(layout: Layout, kind: str, choices: Choices) -> Tensor:
    """What a weight of 1 costs: ``(edges, operations, figures)``, as an architecture has its rows."""
    rows = [source for edges in choices.edges for source in range(edges)] + [-1] * (
        choices.blocks * (choices.tiers - 1)
    )
    values = torch.zeros(len(rows), len(choices.names), len(FIGURES), dtype=torch.float64)
    for place in (place for place in layout.places if place.kind == kind):
        for row, source in enumerate(rows):
            costs = (with_application(name, place.site(source)) for name in choices.names)
            values[row] += torch.tensor([[getattr(cost, each) for each in FIGURES] for cost in costs])
    return values


class ExpectedCost(nn.Module):
    """Adds ``weight * max(0, expected / limit - 1)`` to the loss, for each figure that has a limit.

    Two edges of a block stay, hence one of ``n`` edges counts by ``2 / n``. What is chosen in the end is within the
    limits: operations pay for what they cost, more and more until their cells fit. Limits below the cheapest cells are
    refused.
    """

    table: Tensor  # (edges, operations, figures), of all kinds of cells, as shares of the limits
    rest: Tensor  # (figures,)
    often: Tensor  # (edges,): how likely an edge stays

    def __init__(
        self,
        signature: Signature,
        layout: Layout,
        own: Mapping[str, Architecture],
        limits: Sequence[float],
        weight: float,
    ) -> None:
        super().__init__()
        self.architectures, self.weight = dict(own), weight  # a dict: they belong to the supernet
        self.layout, self.limits = layout, dict(zip(FIGURES, limits, strict=True))
        choices = next(iter(own.values())).choices
        per_limit = torch.tensor([1 / limit if limit else 0.0 for limit in limits], dtype=torch.float64)
        self.of_rest = rest = cost_of_rest(signature, layout, choices.blocks)
        table = torch.cat([prices(layout, kind, choices) for kind in own])
        second = [1.0] * (choices.blocks * (choices.tiers - 1))
        often = [2 / edges for edges in choices.edges for _ in range(edges)] + second
        self.register_buffer("table", (table * per_limit).float(), persistent=False)
        self.register_buffer(
            "rest", (torch.tensor([rest.parameters, rest.flops]) * per_limit).float(), persistent=False
        )
        self.register_buffer("often", torch.tensor(often * len(own)), persistent=False)
        least = self._cost(self._derived(_WHATEVER))
        for name, limit in self._exceeded(least):
            raise ConfigError(
                f"space.{name} is {limit:g}, but the smallest network of these cells has {getattr(least, name):,}: "
                "raise it, or lower space.width or space.cells"
            )

    def _exceeded(self, cost: Cost) -> list[tuple[str, float]]:
        """Limits below a cost, by whole numbers: shares of them are rounded."""
        return [(name, limit) for name, limit in self.limits.items() if limit and getattr(cost, name) > limit]

    def forward(self) -> Tensor:
        """``(figures,)``: what is expected, as a share of the limit; 0 where there is none."""
        rows = torch.cat([architecture.weights() for architecture in self.architectures.values()])
        often = self.often.unsqueeze(1) * rows  # no matrix product, which half precision would round
        return self.rest + (often.unsqueeze(2) * self.table).sum((0, 1))

    def extra_loss(self) -> Tensor:
        """See ``train/module_hooks.py``."""
        return self.weight * (self() - 1).relu().sum()

    def derived(self) -> dict[str, list[BlockChoice]]:
        """The strongest cells within the limits; the cheapest ones are, as was looked at before the search."""
        for price in (0.0, *(_FIRST * _RISE**number for number in range(_PRICES)), _WHATEVER):
            cells = self._derived(price)
            if not self._exceeded(self._cost(cells)):
                break
        return cells

    @torch.no_grad()
    def _derived(self, price: float) -> dict[str, list[BlockChoice]]:
        """The strongest cells where so much is taken off a weight for all that a limit allows."""
        pay = self.table.sum(2).cpu().chunk(len(self.architectures))
        owners = zip(self.architectures.items(), pay, strict=True)
        return {kind: architecture.derived(price * own) for (kind, architecture), own in owners}

    def _cost(self, cells: Cells) -> Cost:
        return self.of_rest + cost_of_operations(self.layout, cells)
