"""The block as it is searched: on every edge all operations, each with its weight (NOS paper, equation 7)."""

from collections.abc import Sequence
from functools import reduce
from itertools import groupby
from operator import add
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eclose.ops.alike import run as run_alike
from eclose.ops.separable import pooled
from eclose.spaces.nos.block import calibrated
from eclose.spaces.nos.operations import ATTENTION, DYNAMIC, FEATURE, OPERATIONS, Site, built


class Shares(NamedTuple):
    """The weights of one block."""

    first: Tensor  # (edges, operations)
    edges: Tensor  # (edges,), of the channels that no operation sees
    second: Tensor | None  # (1, operations)


class MixedTier(nn.Module):
    """The sum of all operations on all edges, by their weights, of each kind for itself; then calibrated.

    ``partial`` of 4: operations see a quarter of the channels, the others pass by (PC-DARTS, Xu et al. 2020).
    ``surrogate``: what an attention or a kernel calibrates in the second tier is what it reads. The weights of those
    operations therefore also weigh a skip; with one operation left it is what :class:`Tier` does.
    """

    def __init__(self, sites: Sequence[Site], names: Sequence[str], partial: int, surrogate: bool) -> None:
        super().__init__()
        self.seen, self.partial, self.surrogate = sites[0].channels // partial, partial, surrogate
        kinds = [OPERATIONS[name].kind for name in names]
        self.features = kinds.count(FEATURE)
        assert kinds[: self.features] == [FEATURE] * self.features
        self.places = {kind: [n for n, own in enumerate(kinds) if own == kind] for kind in (ATTENTION, DYNAMIC)}
        self.numbers = range(self.features, len(names))  # of those that calibrate
        self.edges = nn.ModuleList(
            nn.ModuleList(built(name, site._replace(channels=self.seen), affine=False) for name in names)
            for site in sites
        )
        self.shorten = nn.ModuleList(_shorten(site) for site in sites)
        self.alike = [len(list(own)) for _, own in groupby(sites)]  # edges whose inputs have one shape

    def forward(self, nodes: Sequence[Tensor], weights: Tensor, shares: Tensor) -> Tensor:
        """``(batch, channels, *space)`` from nodes of that shape; ``weights (edges, operations)``."""
        parts = [node[:, : self.seen] for node in nodes] if self.partial > 1 else nodes
        features = self._features(parts, weights)
        if self.partial > 1:
            rest = [shorten(node[:, self.seen :]) for shorten, node in zip(self.shorten, nodes, strict=True)]
            features = shuffled(torch.cat([features, _mixed(torch.stack(rest, dim=1), shares)], dim=1), self.partial)
        if weights.shape[1] == self.features:
            return features
        return calibrated(features, *self._calibrations(parts, weights))

    def _calibrations(self, parts: Sequence[Tensor], weights: Tensor) -> list[list[Tensor]]:
        """Attentions and kernels: of every operation the sum over the edges."""
        sums: dict[int, Tensor] = {}
        start = 0
        for edges, own in zip(self.alike, weights[:, self.features :].split(self.alike), strict=True):
            group, columns = slice(start, start + edges), own.unbind(1)
            x = torch.stack(tuple(parts[group]), dim=1) if edges > 1 else parts[start].unsqueeze(1)
            given = run_alike([self._on_edges(number)[group] for number in self.numbers], x)
            for number, outputs, column in zip(self.numbers, given, columns, strict=True):
                mixed = _mixed(outputs, column)
                sums[number] = sums[number] + mixed if number in sums else mixed
            start += edges
        return [[sums[number] for number in places] for places in self.places.values()]

    def _on_edges(self, number: int) -> list[nn.Module]:
        """One of the operations, on all edges."""
        return [cast(nn.ModuleList, edge)[number] for edge in self.edges]

    def _features(self, parts: Sequence[Tensor], weights: Tensor) -> Tensor:
        # One copy for each channel: the norm that ends an operation takes its weight as a scale.
        scales = weights[:, : self.features].unsqueeze(-1).expand(-1, -1, self.seen).contiguous()
        outputs = [
            weighted(cast(nn.Sequential, operation), x, scale)
            for number, column in enumerate(scales.unbind(1))
            for operation, x, scale in zip(self._on_edges(number), parts, column.unbind(), strict=True)
        ]
        features = reduce(add, outputs)
        if self.surrogate and weights.shape[1] > self.features:
            features = torch.addcmul(features, parts[0], weights[0, self.features :].sum())
        return features


def weighted(operation: nn.Sequential, x: Tensor, scale: Tensor) -> Tensor:
    """``scale * operation(x)``, one number a channel.

    A norm without parameters does it in passing, forward and backward, and its backward pass gives the gradient of the
    scale, too. Norms that several processes share do not.
    """
    modules = list(operation)
    norm = modules.pop() if modules else None
    if not isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
        return operation(x) * scale.view(-1, *(1,) * (x.dim() - 2))
    for module in modules:
        x = module(x)
    momentum = cast(float, norm.momentum)
    return F.batch_norm(x, norm.running_mean, norm.running_var, scale, None, norm.training, momentum, norm.eps)


def _mixed(outputs: Tensor, weights: Tensor) -> Tensor:  # (batch, edges, ...), (edges,)
    """The sum over the edges by their weights, which may be more precise."""
    return (outputs * weights.view(-1, *(1,) * (outputs.dim() - 2))).sum(1).to(outputs.dtype)


def _shorten(site: Site) -> nn.Module:
    whole = max(site.stride) == 1
    return nn.Identity() if whole else pooled("MaxPool", site.channels, site.sizes, site.stride)[0]


def shuffled(x: Tensor, groups: int) -> Tensor:
    """Channels in another order: the next block's operations see others."""
    return x.unflatten(1, (groups, -1)).transpose(1, 2).flatten(1, 2)


class MixedBlock(nn.Module):
    """The block of a cell that is searched."""

    def __init__(self, sites: Sequence[Site], within: Site, names: Sequence[str], partial: int, tiers: int) -> None:
        super().__init__()
        self.first = MixedTier(sites, names, partial, surrogate=False)
        self.second = MixedTier([within], names, partial, surrogate=True) if tiers == 2 else None

    def forward(self, nodes: Sequence[Tensor], shares: Shares) -> Tensor:
        """The next node."""
        surrogate: Tensor = self.first(nodes, shares.first, shares.edges)
        if self.second is None or shares.second is None:
            return surrogate
        return self.second([surrogate], shares.second, shares.second.new_ones(1))
