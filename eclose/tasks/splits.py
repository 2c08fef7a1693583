"""Deterministic division of samples: the same for every run, so that results stay comparable."""

import torch
from torch import Tensor

SHARES = {"train": 0.7, "val": 0.15, "test": 0.15}
_SEED = 20211104


def divide(count: int, shares: dict[str, float], labels: Tensor | None = None) -> dict[str, Tensor]:
    """Sample numbers of each share, ascending. With ``labels (count,)`` every class is divided alike.

    Each sample gets a position in (0, 1): its rank within its class, shuffled. The shares are cut from that.
    """
    order = torch.randperm(count, generator=torch.Generator().manual_seed(_SEED))
    position = torch.empty(count, dtype=torch.float64)
    if labels is None:
        position[order] = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    else:
        by_class = order[labels[order].argsort(stable=True)]
        sizes = torch.bincount(labels[by_class].long())
        rank = torch.arange(count) - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
        position[by_class] = (rank.double() + 0.5) / sizes.repeat_interleave(sizes)
    # Exact counts: sort by position (ties by shuffled order) and cut.
    ranked = order[position[order].argsort(stable=True)]
    cuts = torch.tensor(list(shares.values()), dtype=torch.float64).cumsum(0) / sum(shares.values())
    ends = [round(float(cut) * count) for cut in cuts]
    parts = zip(shares, [0, *ends[:-1]], ends, strict=True)
    return {name: ranked[start:end].sort().values for name, start, end in parts}
