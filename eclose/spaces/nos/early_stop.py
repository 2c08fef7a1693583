"""Early stopping of an architecture that turns into skips (DARTS+, Liang et al. 2019)."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from eclose.errors import ConfigError
from eclose.plural import plural
from eclose.spaces.nos.block import BlockChoice
from eclose.spaces.nos.expected_cost import ExpectedCost
from eclose.spaces.nos.layout import NORMAL
from eclose.spaces.nos.operations import SKIP
from eclose.spaces.nos.supernet import Architecture


def skips_in(blocks: Sequence[BlockChoice]) -> int:
    """How many of them a cell has between its nodes."""
    return [name for block in blocks for _, name in block.first].count(SKIP)


def check_skips(cost: ExpectedCost, most: int) -> None:
    """Refuse limits that no normal cell of so few skips keeps."""
    cells = cost.cheapest()
    if skips_in(cells[NORMAL]) <= most:
        return
    left, blocks = most, []
    for block in cost.cheapest(without=SKIP)[NORMAL]:
        first = tuple((source, SKIP if place < left else name) for place, (source, name) in enumerate(block.first))
        left -= skips_in([block._replace(first=first)])
        blocks.append(block._replace(first=first))
    for name, limit in cost.budget.exceeded(cost.budget.cost({**cells, NORMAL: blocks})):
        raise ConfigError(
            f"space.{name} is {limit:g}, but no cells of space.skips={most} keep it: raise one of them, or lower "
            "space.width or space.cells"
        )


class SkipLimit(nn.Module):
    """Once the normal cell has more than ``most`` skips between its nodes, the architecture stays as it was before.

    It looks after every epoch, and stops only after it saw a cell that kept the limit: weights of the start are noise
    that may have more. The weights go on learning. Nothing waits for the device but that look.
    """

    kept: Tensor
    stopped: Tensor  # after how many epochs; 0: not yet
    looked: Tensor  # after how many epochs it looked last
    few: Tensor  # 1 once a cell kept the limit

    def __init__(self, architectures: Mapping[str, Architecture], most: int, cost: ExpectedCost | None) -> None:
        super().__init__()
        self.most = most
        self.owned = (architectures[NORMAL], cost)  # a tuple: they belong to the supernet
        self.parameters_kept = [each for own in architectures.values() for each in own.arch_parameters()]
        self.register_buffer("kept", self._now())
        for name in ("stopped", "looked", "few"):
            self.register_buffer(name, torch.zeros(()))

    def arch_parameters(self) -> list[nn.Parameter]:
        """None; it says so because what it remembers belongs to the architecture, which goes on after a restart."""
        return []

    def _now(self) -> Tensor:
        return torch.cat([parameter.detach().flatten() for parameter in self.parameters_kept])

    def before_step(self, epochs: float) -> None:
        """See ``train/module_hooks.py``; all that is remembered is in tensors, and so in checkpoints."""
        if epochs < 1 or epochs != int(epochs) or bool(self.stopped):
            return
        self.looked.fill_(epochs)
        many = self._skips() > self.most
        if many and bool(self.few):
            self.stopped.fill_(epochs)
            self.after_step()
            return
        self.kept.copy_(self._now())
        if not many:
            self.few.fill_(1)

    def _skips(self) -> int:
        """Of the cell that would be chosen now: within limits it is another one."""
        normal, cost = self.owned
        return skips_in(normal.derived() if cost is None else cost.derived()[NORMAL])

    def ended(self) -> str:
        """Looks after the last epoch, too; when and why the architecture stopped, empty if it had no reason to."""
        self.before_step(float(self.looked) + 1)
        self.after_step()  # averaged weights are others than those that were kept
        more = f"more than {plural(self.most, 'skip')}"
        if after := int(self.stopped):
            return f", stopped after epoch {after} with {more}"
        return "" if bool(self.few) else f", with {more} after every epoch"

    @torch.no_grad()
    def after_step(self) -> None:
        """See ``train/module_hooks.py``."""
        start = 0
        for parameter in self.parameters_kept:
            kept = self.kept[start : start + parameter.numel()].view_as(parameter)
            parameter.copy_(torch.where(self.stopped > 0, kept, parameter))
            start += parameter.numel()
