"""Descent by steps relative to what they move: the same rate fits every loss and every tensor."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

_MEMORY = 0.999
"""How much of the mean square of a gradient's norm is kept from step to step: about the last thousand steps count."""
_SMALLEST = 1e-8
"""Of the mean square of the entries of a tensor: so small ones count as so large."""
_LEAST = 0.1
"""A tensor whose numbers are smaller on average moves as if they were that large: one that starts as zero must move."""


class RelativeSGD(Optimizer):
    """``p <- (1 - lr decay) p - lr max(||p||, 0.1 sqrt(size)) m / rms ||g||`` for every tensor p by itself.

    ``m`` is the mean of the gradients g with weights that fall by ``momentum`` from step to step, ``rms`` the root of
    the mean square of their norms over about a thousand steps. The direction is that of the gradient, as in plain
    descent, and not that of Adam, which moves numbers of small gradients as far as all others. Steps become smaller
    where gradients vanish or contradict each other; a factor of the loss changes nothing.
    """

    def __init__(self, params: Any, lr: float = 0.005, momentum: float = 0.9, weight_decay: float = 0.0) -> None:
        if not 0.0 <= momentum < 1.0:
            raise ValueError(f"momentum is {momentum}, but must be at least 0 and below 1")
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One step; no number leaves the device, so that a CUDA graph can replay it."""
        for group in self.param_groups:
            moved = [parameter for parameter in group["params"] if parameter.grad is not None]
            if moved:
                self._move(moved, group)

    def _move(self, moved: list[Tensor], group: dict[str, Any]) -> None:
        gradients = [parameter.grad for parameter in moved if parameter.grad is not None]
        means, squares, counts = (list(column) for column in zip(*map(self._state, moved), strict=True))
        torch._foreach_lerp_(means, gradients, 1 - group["momentum"])
        norms = torch._foreach_norm(gradients)
        torch._foreach_mul_(norms, norms)
        torch._foreach_lerp_(squares, norms, 1 - _MEMORY)
        torch._foreach_mul_(counts, _MEMORY)
        torch._foreach_add_(counts, 1 - _MEMORY)  # of a mean that began at zero, so much is there
        usual = torch.stack(squares).div_(torch.stack(counts)).sqrt_()
        lengths = torch._foreach_norm(moved)
        torch._foreach_clamp_min_(lengths, [_LEAST * parameter.numel() ** 0.5 for parameter in moved])
        tiny = torch.finfo(usual.dtype).tiny
        factors = group["lr"] * torch.stack(lengths) / usual.clamp_min_(tiny)
        if group["weight_decay"]:
            torch._foreach_mul_(moved, 1 - group["lr"] * group["weight_decay"])
        ways = self._directions(moved, means, gradients, squares)
        torch._foreach_sub_(moved, torch._foreach_mul(ways, list(factors.unbind())))

    def _directions(
        self, moved: list[Tensor], means: list[Tensor], gradients: list[Tensor], squares: list[Tensor]
    ) -> list[Tensor]:
        """Those of the gradients."""
        return means

    def _state(self, parameter: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        state = self.state[parameter]
        if not state:
            state["mean"] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
            state["square"], state["count"] = (parameter.new_zeros(()) for _ in range(2))
        return state["mean"], state["square"], state["count"]


class RelativeAdam(RelativeSGD):
    """As :class:`RelativeSGD`, but every entry of ``m`` is divided by the size that its gradients have usually.

    That size is the root of their mean square, relative to that of all entries of the tensor. Entries of small
    gradients move as far as the others: in a few hundred steps the architecture comes further.
    """

    def _directions(
        self, moved: list[Tensor], means: list[Tensor], gradients: list[Tensor], squares: list[Tensor]
    ) -> list[Tensor]:
        entries = [self._entries(parameter) for parameter in moved]
        torch._foreach_lerp_(entries, torch._foreach_mul(gradients, gradients), 1 - _MEMORY)
        tiny = torch.finfo(moved[0].dtype).tiny
        usual = [(square / entry.numel()).clamp_min(tiny) for square, entry in zip(squares, entries, strict=True)]
        sizes = torch._foreach_div(entries, usual)  # both means began at zero: nothing to correct
        torch._foreach_clamp_min_(sizes, _SMALLEST)
        torch._foreach_sqrt_(sizes)
        return list(torch._foreach_div(means, sizes))

    def _entries(self, parameter: Tensor) -> Tensor:
        state = self.state[parameter]
        if "entries" not in state:
            state["entries"] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
        entries: Tensor = state["entries"]
        return entries
