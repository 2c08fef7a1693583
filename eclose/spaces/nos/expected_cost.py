"""What the chosen network will cost, as far as a search knows: a sum over operations by their weights.

Two edges of every block stay, hence an edge of ``n`` counts by ``2 / n``. Everything else costs what it costs.
"""

from collections.abc import Mapping, Sequence
from math import prod

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from eclose.signature import Signature
from eclose.spaces.nos.block import BlockChoice
from eclose.spaces.nos.drop_path import DropPath
from eclose.spaces.nos.evaluation import Cells, EvaluationNetwork
from eclose.spaces.nos.layout import KINDS, Layout
from eclose.spaces.nos.operations import DYNAMIC, OPERATIONS, SKIP, Site, cost_of
from eclose.spaces.nos.supernet import Architecture
from eclose.spaces.operation import Cost

FIGURES = ("parameters", "flops")


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
    total = cost_of_rest(signature, layout, len(cells[KINDS[0]]))
    for place in layout.places:
        for choice in cells[place.kind]:
            chosen = [*choice.first, *([] if choice.second is None else [(-1, choice.second)])]
            for source, name in chosen:
                total += with_application(name, place.site(source))
    return total


def coefficients(layout: Layout, kind: str, names: Sequence[str], edges: Sequence[int], tiers: int) -> Tensor:
    """What a weight of 1 costs: ``(edges, operations, figures)``, as an architecture has its rows."""
    first = [(source, 2 / number) for number in edges for source in range(number)]
    rows = first + [(-1, 1.0)] * (len(edges) * (tiers - 1))
    values = torch.zeros(len(rows), len(names), len(FIGURES), dtype=torch.float64)
    for place in layout.places:
        if place.kind == kind:
            for row, (source, share) in enumerate(rows):
                for column, name in enumerate(names):
                    cost = with_application(name, place.site(source))
                    values[row, column] += share * torch.tensor([float(getattr(cost, each)) for each in FIGURES])
    return values


class ExpectedCost(nn.Module):
    """Adds ``weight * max(0, expected / limit - 1)`` to the loss, for each figure that has a limit."""

    table: Tensor
    rest: Tensor

    def __init__(
        self, architectures: Mapping[str, Architecture], tables: Mapping[str, Tensor], rest: Cost,
        limits: Sequence[float], weight: float,
    ) -> None:  # fmt: skip
        super().__init__()
        self.architectures = list(architectures.values())  # a list: they belong to the supernet
        self.weight = weight
        per_limit = torch.tensor([1 / limit if limit else 0.0 for limit in limits], dtype=torch.float64)
        table = torch.cat([tables[kind] for kind in architectures])
        self.register_buffer("table", (table * per_limit).float(), persistent=False)
        fixed = torch.tensor([float(getattr(rest, each)) for each in FIGURES], dtype=torch.float64)
        self.register_buffer("rest", (fixed * per_limit).float(), persistent=False)

    def forward(self) -> Tensor:
        """``(figures,)``: what is expected, as a share of the limit; 0 where there is none."""
        rows = torch.cat([architecture.weights() for architecture in self.architectures])
        return self.rest + torch.einsum("eo,eof->f", rows, self.table)

    def extra_loss(self) -> Tensor:
        """See ``train/module_hooks.py``."""
        return self.weight * (self() - 1).relu().sum()
