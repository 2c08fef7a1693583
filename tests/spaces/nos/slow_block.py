"""Equations (2) to (5) of the NOS paper, written down as they stand: the truth that blocks are tested against."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eclose.spaces.nos.operations import ATTENTION, DYNAMIC, FEATURE, OPERATIONS

CONVOLVE = (F.conv1d, F.conv2d, F.conv3d)


def applied(features: Tensor, kernels: Tensor) -> Tensor:
    """Every channel of every sample by itself."""
    convolve = CONVOLVE[features.dim() - 3]
    rows = [
        torch.stack([convolve(c[None, None], k[None, None], padding="same")[0, 0] for c, k in zip(*pair, strict=True)])
        for pair in zip(features, kernels, strict=True)
    ]
    return torch.stack(rows)


def slow_tier(
    nodes: Sequence[Tensor], operations: Sequence[Sequence[nn.Module]], names: Sequence[str], weights: Tensor,
    surrogate: bool,
) -> Tensor:  # fmt: skip
    """One tier: all outputs of a kind, weighted (2, 4, 7), then put together (3, 5)."""
    features: list[Tensor] = []
    attentions: list[Tensor] = []
    kernels: list[Tensor] = []
    lists = {FEATURE: features, ATTENTION: attentions, DYNAMIC: kernels}
    for node, edge, row in zip(nodes, operations, weights, strict=True):
        for name, operation, weight in zip(names, edge, row, strict=True):
            kind = OPERATIONS[name].kind
            lists[kind].append(weight * operation(node))
            if surrogate and kind != FEATURE:  # our decision: what it calibrates is what it reads
                features.append(weight * node)
    total = torch.stack(features).sum(0)
    result = total
    if attentions:
        attention = torch.zeros_like(total)
        for each in attentions:
            attention = attention + each.expand_as(total)
        result = result + total * attention
    for kernel in kernels:
        result = result + applied(total, kernel)
    return result
