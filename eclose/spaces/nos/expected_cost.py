"""What the chosen network will cost, as far as a search knows: a sum over operations by their weights."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from eclose.spaces.nos.block import BlockChoice
from eclose.spaces.nos.cell_cost import FIGURES, Budget, with_application
from eclose.spaces.nos.layout import Layout
from eclose.spaces.nos.supernet import Architecture, Choices

_FIRST, _RISE, _PRICES = 0.01, 1.1, 200  # of a whole limit, in units of weights: the first price, and those after it
_KEPT = 2  # edges of a block
_WHATEVER = 1e12  # a price for which only the cheapest is taken


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


def _likely(architecture: Architecture) -> Tensor:
    """How likely each operation of each edge stays, as far as weights say; all edges of the second tier stay."""
    weights, edges = architecture.chances(), torch.cat(architecture.shares_of_edges())
    first = (_KEPT * edges).clamp(max=1.0)
    stays = torch.cat([first, first.new_ones(len(weights) - len(first))])
    return stays.unsqueeze(1) * weights


class ExpectedCost(nn.Module):
    """Adds ``weight * max(0, expected / limit - 1)`` to the loss, for each figure that has a limit.

    Two edges of a block stay, hence one counts by twice its share of them, at most once: by ``2 / n`` of ``n`` edges
    without shares of their own. What is chosen in the end is within the
    limits: operations pay for what they cost, more and more until their cells fit. Limits below the cheapest cells are
    refused.
    """

    table: Tensor  # (edges, operations, figures), of all kinds of cells, as shares of the limits
    rest: Tensor  # (figures,)

    def __init__(self, budget: Budget, own: Mapping[str, Architecture], weight: float) -> None:
        super().__init__()
        self.architectures, self.weight = dict(own), weight  # a dict: they belong to the supernet
        self.budget = budget
        choices, rest = next(iter(own.values())).choices, budget.rest
        limits = [budget.limits.get(name, 0.0) for name in FIGURES]
        per_limit = torch.tensor([1 / limit if limit else 0.0 for limit in limits], dtype=torch.float64)
        table = torch.cat([prices(budget.layout, kind, choices) for kind in own])
        self.register_buffer("table", (table * per_limit).float(), persistent=False)
        self.register_buffer(
            "rest", (torch.tensor([rest.parameters, rest.flops]) * per_limit).float(), persistent=False
        )
        budget.check_least(budget.cost(self.cheapest()), "the smallest network of these cells")

    def forward(self) -> Tensor:
        """``(figures,)``: what is expected, as a share of the limit; 0 where there is none."""
        rows = torch.cat([_likely(architecture) for architecture in self.architectures.values()])
        # No matrix product, which half precision would round.
        return self.rest + (rows.unsqueeze(2) * self.table).sum((0, 1))

    def extra_loss(self) -> Tensor:
        """See ``train/module_hooks.py``."""
        return self.weight * (self() - 1).relu().sum()

    def derived(self) -> dict[str, list[BlockChoice]]:
        """The strongest cells within the limits; the cheapest ones are, as was looked at before the search."""
        for price in (0.0, *(_FIRST * _RISE**number for number in range(_PRICES)), _WHATEVER):
            cells = self._derived(price)
            if not self.budget.exceeded(self.budget.cost(cells)):
                break
        return cells

    def cheapest(self, without: str = "") -> dict[str, list[BlockChoice]]:
        """The cells of the lowest cost; of equals the strongest. Their first tier is ``without`` an operation."""
        return self._derived(_WHATEVER, without)

    @torch.no_grad()
    def _derived(self, price: float, without: str = "") -> dict[str, list[BlockChoice]]:
        """The strongest cells where so much is taken off a weight for all that a limit allows."""
        pay = self.table.sum(2).cpu().chunk(len(self.architectures))
        owners = zip(self.architectures.items(), pay, strict=True)
        if without:
            choices = next(iter(self.architectures.values())).choices
            for own in pay:
                own[: sum(choices.edges), choices.names.index(without)] = _WHATEVER
        return {kind: architecture.derived(price * own) for (kind, architecture), own in owners}
