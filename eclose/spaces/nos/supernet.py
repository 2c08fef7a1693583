"""The relaxation: a network whose cells hold all operations, the weights between them, what stays (NOS paper, 3.3)."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from eclose.signature import Signature
from eclose.spaces.nos.block import BlockChoice, Choice
from eclose.spaces.nos.layout import KINDS, Layout, Place
from eclose.spaces.nos.mixed_block import MixedBlock, Shares
from eclose.spaces.nos.network import CellNetwork
from eclose.spaces.nos.operations import FEATURE, OPERATIONS

_SPREAD = 1e-3  # of the architecture at the start
_WARM, _COLD = 1.0, 0.1  # temperatures of draws, at the start and in the end
_INPUTS = 2  # of a block
Weighed = tuple[float, Choice]


class Choices(NamedTuple):
    """What a cell may be made of, and how its weights are formed."""

    names: tuple[str, ...]
    blocks: int = 4
    tiers: int = 2
    partial: int = 1
    edge_norm: bool = False
    gumbel: bool = False
    none: bool = False  # edges may fade, too: an operation that gives zeros has a share, and never stays

    @property
    def edges(self) -> list[int]:
        """Of the first tier of each block."""
        return [2 + block for block in range(self.blocks)]


class Architecture(nn.Module):
    """The numbers behind the weights of one kind of cell: ``(edges, operations)``; edges of the second tier come last.

    The weights of an edge are the softmax of its row. With ``none`` a row has one number more, that of an operation
    which gives zeros (DARTS): it takes its part of the softmax, and nothing of it is computed or chosen. With
    ``edge_norm`` the edges of a block have weights, too, by which those of their operations are multiplied (PC-DARTS).
    With ``gumbel`` each pass of a training draws its weights (Xie et al. 2019), at a temperature that falls over
    ``epochs``.
    """

    temperature: Tensor

    def __init__(self, choices: Choices, epochs: int) -> None:
        super().__init__()
        self.choices, self.epochs = choices, epochs
        rows = sum(choices.edges) + choices.blocks * (choices.tiers - 1)
        self.operations = nn.Parameter(_SPREAD * torch.randn(rows, len(choices.names) + choices.none))
        self.between = nn.Parameter(_SPREAD * torch.randn(sum(choices.edges))) if choices.edge_norm else None
        self.register_buffer("temperature", torch.tensor(_WARM), persistent=False)

    def arch_parameters(self) -> list[nn.Parameter]:
        """See ``train/module_hooks.py``."""
        return [self.operations] if self.between is None else [self.operations, self.between]

    def before_step(self, epochs: float) -> None:
        """See ``train/module_hooks.py``."""
        if self.choices.gumbel:
            self.temperature.fill_(_WARM + (_COLD - _WARM) * min(1.0, epochs / self.epochs))

    def weights(self) -> Tensor:
        """``(edges, operations)``: what the architecture says, without draws and without weights of edges."""
        return self._named(self.operations.softmax(dim=1))

    def chances(self) -> Tensor:
        """``(edges, operations)``: the weights among what may stay; each row sums to one."""
        return self._named(self.operations).softmax(dim=1)

    def _named(self, rows: Tensor) -> Tensor:
        """Without the column of ``none``."""
        return rows[:, : len(self.choices.names)]

    def forward(self) -> list[Shares]:
        """The weights of each block."""
        edges, weights = self.choices.edges, self._drawn()
        blocks, seconds = self._split(weights)
        if self.between is None:
            between = [weights.new_ones(number) for number in edges]
            return [Shares(*each) for each in zip(blocks, between, seconds, strict=True)]
        return [
            Shares(own * shares.unsqueeze(1), shares, second)
            for own, shares, second in zip(blocks, self.shares_of_edges(), seconds, strict=True)
        ]

    def shares_of_edges(self) -> list[Tensor]:
        """Those of each block, which sum to one."""
        if self.between is None:
            return [self.operations.new_full((edges,), 1 / edges) for edges in self.choices.edges]
        return [block.softmax(dim=0) for block in self.between.split(self.choices.edges)]

    def _split(self, weights: Tensor) -> tuple[Sequence[Tensor], Sequence[Tensor | None]]:
        """The rows of each block, of its first tier and of its second."""
        edges = self.choices.edges
        rows = weights.split([*edges, *[1] * (len(weights) - sum(edges))])
        return rows[: len(edges)], rows[len(edges) :] or [None] * len(edges)

    def _drawn(self) -> Tensor:
        if not (self.choices.gumbel and self.training):
            return self.weights()
        noise = -torch.empty_like(self.operations).exponential_().log()
        return self._named(((self.operations + noise) / self.temperature).softmax(dim=1))

    @torch.no_grad()
    def settled(self) -> list[Shares]:
        """The weights of each block, without draws."""
        training, self.training = self.training, False
        try:
            return self()
        finally:
            self.training = training

    def derived(self, prices: Tensor | None = None) -> list[BlockChoice]:
        """The blocks of the cell that the weights stand for; ``prices (edges, operations)`` are taken off them."""
        names, weights = self.choices.names, self._rows().cpu()
        rows, seconds = self._split(weights if prices is None else weights - prices)
        return [strongest_block(first, second, names) for first, second in zip(rows, seconds, strict=True)]

    def rounded(self) -> list[list[float]]:
        """The weights, edge by edge, as plain numbers."""
        return [[round(weight, 4) for weight in row] for row in self._rows().tolist()]

    def _rows(self) -> Tensor:
        blocks = self.settled()
        return torch.cat([own.first for own in blocks] + [own.second for own in blocks if own.second is not None])


class Supernet(CellNetwork):
    """Cells of all operations; cells of one kind share their weights between operations."""

    def __init__(self, signature: Signature, layout: Layout, choices: Choices, epochs: int = 1) -> None:
        def block(place: Place, number: int) -> nn.Module:
            sites = place.sites(number), place.site(-1)
            return MixedBlock(*sites, choices.names, choices.partial, choices.tiers)

        super().__init__(signature, layout, choices.blocks, block, affine=False)
        self.architecture = nn.ModuleDict({kind: Architecture(choices, epochs) for kind in KINDS})

    @property
    def architectures(self) -> dict[str, Architecture]:
        """By the kind of the cell."""
        return {kind: cast(Architecture, self.architecture[kind]) for kind in KINDS}

    def forward(self, x: Tensor) -> Tensor:  # as the signature says
        """As the signature says."""
        shares = {kind: architecture() for kind, architecture in self.architectures.items()}
        return self.answer(self.outputs(x, shares))


def strongest_block(first: Tensor, second: Tensor | None, names: tuple[str, ...]) -> BlockChoice:
    """What stays of a block: two inputs, and one operation of its second tier.

    Of all pairs of edges that are allowed the one with the largest sum of weights; of equals the first. At least one
    of the two operations gives features: else there would be nothing to calibrate. The weights are ``first (edges,
    operations)`` and ``second (1, operations)``.
    """
    edges = [
        [(float(weight), (source, name)) for weight, name in zip(row, names, strict=True)]
        for source, row in enumerate(first)
    ]
    pairs = [pair for two in combinations(edges, _INPUTS) for pair in _allowed(*two)]
    chosen = max(pairs, key=lambda pair: sum(weight for weight, _ in pair))
    then = None if second is None else names[int(second.argmax())]
    return BlockChoice(tuple(choice for _, choice in chosen), then)


def _allowed(one: list[Weighed], other: list[Weighed]) -> list[tuple[Weighed, Weighed]]:
    """The strongest operations of two edges; if neither gives features, those of one edge must."""
    strongest = max(one, key=_weight), max(other, key=_weight)
    if any(map(_is_feature, strongest)):
        return [strongest]
    features = (max(filter(_is_feature, each), key=_weight) for each in (one, other))
    left, right = features
    return [(left, strongest[1]), (strongest[0], right)]


def _weight(weighed: Weighed) -> float:
    return weighed[0]


def _is_feature(weighed: Weighed) -> bool:
    return OPERATIONS[weighed[1][1]].kind == FEATURE


class WeightHistory(nn.Module):
    """How the weights moved: of every operation the mean over the edges of a kind of cell, as every epoch begins."""

    means: Tensor  # (epochs, kinds, operations); zero: not yet

    def __init__(self, architectures: Mapping[str, Architecture], epochs: int) -> None:
        super().__init__()
        self.architectures = dict(architectures)  # no modules of this one: they belong to the supernet
        operations = len(next(iter(architectures.values())).choices.names)
        self.register_buffer("means", torch.zeros(epochs, len(architectures), operations))

    def arch_parameters(self) -> list[nn.Parameter]:
        """None; it says so because what it remembers belongs to the architecture, which goes on after a restart."""
        return []

    def before_step(self, epochs: float) -> None:
        """See ``train/module_hooks.py``."""
        if epochs == int(epochs) and epochs < len(self.means):
            self.means[int(epochs)] = self._now()

    @torch.no_grad()
    def _now(self) -> Tensor:
        return torch.stack([own.weights().mean(0) for own in self.architectures.values()])

    def told(self) -> dict[str, list[list[float]]]:
        """One row an epoch and one for the end, by the kind of the cell."""
        rows = [*(row for row in self.means if bool(row.any())), self._now()]
        values = torch.stack(rows).cpu().transpose(0, 1).tolist()
        return {
            kind: [[round(value, 4) for value in row] for row in own]
            for kind, own in zip(self.architectures, values, strict=True)
        }
