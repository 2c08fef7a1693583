"""Early stopping of an architecture that turns into skips (DARTS+, Liang et al. 2019)."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from eclose.plural import plural
from eclose.spaces.nos.layout import NORMAL
from eclose.spaces.nos.operations import SKIP
from eclose.spaces.nos.supernet import Architecture


class SkipLimit(nn.Module):
    """Once the normal cell had more than ``most`` skips between its nodes, the architecture stays as it was before.

    It looks after every epoch. The weights go on learning. Nothing waits for the device but that look.
    """

    kept: Tensor
    stopped: Tensor  # after how many epochs; 0: not yet

    def __init__(self, architectures: Mapping[str, Architecture], most: int) -> None:
        super().__init__()
        self.most = most
        self.normal = [architectures[NORMAL]]  # a list: it belongs to the supernet
        self.parameters_kept = [each for own in architectures.values() for each in own.arch_parameters()]
        self.register_buffer("kept", self._now())
        self.register_buffer("stopped", torch.zeros(()))

    def _now(self) -> Tensor:
        return torch.cat([parameter.detach().flatten() for parameter in self.parameters_kept])

    def before_step(self, epochs: float) -> None:
        """See ``train/module_hooks.py``; all that is remembered is in tensors, and so in checkpoints."""
        if epochs < 1 or epochs != int(epochs) or bool(self.stopped):
            return
        chosen = [name for block in self.normal[0].derived() for _, name in block.first]
        if chosen.count(SKIP) > self.most:
            self.stopped.fill_(epochs)
            self.after_step()
        else:
            self.kept.copy_(self._now())

    def ended(self, epochs: int) -> str:
        """Looks after the last epoch, too; when and why the architecture stopped, empty if it did not."""
        self.before_step(epochs)
        after = int(self.stopped)
        return f", stopped after epoch {after} with more than {plural(self.most, 'skip')}" if after else ""

    @torch.no_grad()
    def after_step(self) -> None:
        """See ``train/module_hooks.py``."""
        start = 0
        for parameter in self.parameters_kept:
            kept = self.kept[start : start + parameter.numel()].view_as(parameter)
            parameter.copy_(torch.where(self.stopped > 0, kept, parameter))
            start += parameter.numel()
