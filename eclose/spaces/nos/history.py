"""How the weights of the operations moved: remembered by the supernet, epoch by epoch."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from eclose.spaces.nos.supernet import Architecture


class WeightHistory(nn.Module):
    """The mean weight of every operation over the edges of a kind of cell, at the begin of every epoch."""

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
