"""Averaged weights: a moving average over the last part of a training, whatever its length.

After ``t`` steps the average moves by ``1 / (1 + share * t)`` towards the weights: it looks back on about ``share`` of
the steps so far (Karras et al. 2024, section 3.1). A training of hundred steps and one of a million need no other
setting, and a training whose end is not known yet has its average at any time.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase


class Average:
    """The averaged parameters of a model and the averaged running statistics of its normalisations."""

    def __init__(self, model: nn.Module, share: float) -> None:
        self.share = share
        self.moving = _moving(model)
        self.tensors = [tensor.detach().clone() for tensor in self.moving]

    @torch.no_grad()
    def update(self, steps: int) -> None:
        """The weights have moved for the ``steps``-th time. Nothing waits for the device."""
        torch._foreach_lerp_(self.tensors, self.moving, 1 / (1 + self.share * (steps - 1)))

    @contextmanager
    def shown(self) -> Iterator[None]:
        """The model has the averaged weights while the block lasts. They are copied: a CUDA graph keeps addresses."""
        own = [tensor.clone() for tensor in self.moving]
        self.install()
        try:
            yield
        finally:
            _copy(self.moving, own)

    def install(self) -> None:
        """The model has the averaged weights from now on."""
        _copy(self.moving, self.tensors)

    def load(self, tensors: list[Tensor]) -> None:
        """The averages of a checkpoint."""
        if len(tensors) != len(self.tensors):
            raise ValueError(f"{len(tensors)} averaged tensors instead of {len(self.tensors)}")
        _copy(self.tensors, tensors)


def _moving(model: nn.Module) -> list[Tensor]:
    """What a training moves, each tensor once."""
    tensors: list[Tensor] = [parameter.detach() for parameter in model.parameters()]
    for module in model.modules():
        names = ("running_mean", "running_var") if isinstance(module, _NormBase) else getattr(module, "averaged", ())
        tensors += [t for t in map(module.get_buffer, names) if t is not None]
    return tensors


@torch.no_grad()
def _copy(there: list[Tensor], here: list[Tensor]) -> None:
    torch._foreach_copy_(there, here)
