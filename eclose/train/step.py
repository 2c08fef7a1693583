"""One step of a training: from a batch to moved weights.

The loop knows a step only by :class:`Step`. A bilevel step or one with a teacher is another class with the same four
methods; what a network wants of every step it says itself (``train/module_hooks.py``).
"""

import contextlib
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from eclose.train.device import PRECISIONS
from eclose.train.memory_layout import laid_out_as
from eclose.train.module_hooks import Verbs
from eclose.train.objective import Objective
from eclose.train.parallel import World, sum_gradients


class Step(Protocol):
    """What the loop asks of a step."""

    def __call__(self, x: Tensor, y: Tensor, batch: int) -> Tensor:
        """Move the weights; the sum of the losses of these samples. ``batch`` counts all processes' samples."""

    def set_rate(self, factor: float, epochs: float) -> None:
        """Multiply every learning rate's base value; ``epochs`` are done."""

    def state_dict(self) -> dict[str, Any]:
        """All that the next step depends on, apart from the model."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`state_dict`."""


def autocast(precision: str, device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Mixed precision for the forward pass, if ``precision`` asks for it."""
    dtype = PRECISIONS[precision]
    return contextlib.nullcontext() if dtype is None else torch.autocast(device.type, dtype)


class GradientStep:
    """Backward, sum over the processes, clip, optimisers (one, or one for weights and one for the architecture)."""

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        optimisers: Sequence[Optimizer],
        clip: float,
        precision: str,
        device: torch.device,
        world: World,
    ) -> None:
        self.model = model
        self.objective = objective
        self.optimisers = list(optimisers)
        self.clip = clip
        self.precision = precision
        self.device = device
        self.world = world
        self.scaler = torch.amp.GradScaler(device.type, enabled=precision == "float16")
        self.groups = [group for optimiser in self.optimisers for group in optimiser.param_groups]
        self.verbs = Verbs(model)
        self.parameters = [parameter for group in self.groups for parameter in group["params"]]
        for group in self.groups:
            group["base_lr"] = group["lr"]

    def __call__(self, x: Tensor, y: Tensor, batch: int) -> Tensor:
        """See :class:`Step`."""
        total = self.backward(x, y, batch)
        self.move()
        return total

    def backward(self, x: Tensor, y: Tensor, batch: int) -> Tensor:
        """The gradients of all parameters, the same in every process; the sum of the losses of these samples."""
        with self.verbs.one_pass():
            with autocast(self.precision, self.device):
                losses = self.objective(self.model, x, y)  # (samples,)
                losses = self.verbs.extended(losses, y, self.objective.judge)
            self.zero_grad()
            # The gradient of the mean, handed in rather than computed: a sum and a quotient less to launch.
            self.scaler.scale(losses).backward(losses.new_full(losses.shape, 1 / batch))
        sum_gradients(self.parameters, self.world)
        return losses.detach().sum()

    def move(self) -> None:
        """Clip the gradients, let the optimisers step, then the modules that act after a step."""
        if self.clip:
            for optimiser in self.optimisers:
                self.scaler.unscale_(optimiser)
            nn.utils.clip_grad_norm_(self.parameters, self.clip)
        for optimiser in self.optimisers:
            self.scaler.step(optimiser)
        self.scaler.update()
        self.verbs.after_step()

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for optimiser in self.optimisers:
            optimiser.zero_grad(set_to_none=True)

    def set_rate(self, factor: float, epochs: float) -> None:
        """See :class:`Step`."""
        self.verbs.before_step(epochs)
        for group in self.groups:
            if group.get("scheduled", True):
                group["lr"] = group["base_lr"] * factor

    def state_dict(self) -> dict[str, Any]:
        """See :class:`Step`."""
        return {
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
            "scaler": self.scaler.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See :class:`Step`."""
        for optimiser, saved in zip(self.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
            for parameter, own in optimiser.state.items():
                own.update({k: laid_out_as(v, parameter) for k, v in own.items() if isinstance(v, Tensor)})
        self.groups = [group for optimiser in self.optimisers for group in optimiser.param_groups]
        self.scaler.load_state_dict(state["scaler"])
