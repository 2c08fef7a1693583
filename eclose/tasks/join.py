"""Two splits as one: a network that was chosen is trained on all samples that are not for the test."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from eclose.tasks.task import Split


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
