"""Samples by number: divided (the same way for every run), put together, and gone through in pieces."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from eclose.tasks.task import Split

SHARES = {"train": 0.7, "val": 0.15, "test": 0.15}
_SEED = 20211104
_BLOCK = 4 * 2**20  # bytes looked at together; of bytes, several copies eight times as large are made
_SAMPLES = 10_000
_VALUES = 2**27  # numbers read at most, about a second


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


@dataclass(frozen=True)
class Changed(Split):
    """The samples of ``before``, each with its input changed as it is taken. ``rows`` counts over these."""

    before: Split = field(kw_only=True)
    change: Callable[[Tensor], Tensor] = field(kw_only=True)

    def __len__(self) -> int:
        return len(self.before) if self.rows is None else len(self.rows)

    def take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """See :class:`Split`."""
        x, y = self.before.take(index if self.rows is None else self.rows[index])
        return self.change(x), y


@dataclass(frozen=True)
class Joined(Split):
    """The samples of ``first``, then those of ``second``; nothing is copied. ``rows`` counts over both."""

    first: Split = field(kw_only=True)
    second: Split = field(kw_only=True)

    def __len__(self) -> int:
        return len(self.first) + len(self.second) if self.rows is None else len(self.rows)

    def take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """See :class:`Split`."""
        rows = index if self.rows is None else self.rows[index]
        early = rows < len(self.first)
        parts = self.first.take(rows[early]), self.second.take(rows[~early] - len(self.first))
        order = (~early).to(torch.uint8).argsort(stable=True).argsort()
        x, y = (torch.cat(pair)[order] for pair in zip(*parts, strict=True))
        return x, y


def join(first: Split, second: Split) -> Split:
    """``first`` and ``second`` as one split."""
    return Joined(first.x, first.y, first=first, second=second)


def blocks(split: Split) -> list[Tensor]:
    """Sample numbers in blocks of about 4 MiB."""
    each = max(1, split.bytes // max(1, len(split)))
    return list(torch.arange(len(split)).split(max(1, _BLOCK // each)))


def spread(count: int, most: int) -> Tensor:
    """Numbers of at most ``most`` of so many samples, evenly spread: neighbours in a file are often alike.

    In single precision, as in the fingerprints that runs have kept; it may round the last number up.
    """
    return torch.linspace(0, count - 1, min(most, count)).long().clamp(max=count - 1)


def some(split: Split, most: int = _SAMPLES, values: int = _VALUES) -> Split:
    """Samples spread evenly over a split, few enough to be read in a second."""
    x, y = split.take(torch.arange(1))
    count = min(len(split), most, max(1, values // (x.numel() + y.numel())))
    return split.select(torch.linspace(0, len(split) - 1, count, dtype=torch.float64).long())
