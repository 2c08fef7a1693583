"""One step of a training: from a batch to moved weights.

The loop knows a step only by :class:`Step`. A bilevel step, a step with a teacher or one that clamps masks
afterwards is another class with the same four methods.
"""

import contextlib
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from eclose.config import OptimiserSection
from eclose.train.device import PRECISIONS
from eclose.train.objective import Objective
from eclose.train.optimisers import Groups, make_optimiser
from eclose.train.parallel import World, sum_gradients


class Step(Protocol):
    """What the loop asks of a step."""

    def __call__(self, x: Tensor, y: Tensor, batch: int) -> Tensor:
        """Move the weights; the sum of the losses of these samples. ``batch`` counts all processes' samples."""

    def set_rate(self, factor: float) -> None:
        """Multiply every learning rate's base value."""

    def state_dict(self) -> dict[str, Any]:
        """All that the next step depends on, apart from the model."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`state_dict`."""


def autocast(precision: str, device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Mixed precision for the forward pass, if ``precision`` asks for it."""
    dtype = PRECISIONS[precision]
    return contextlib.nullcontext() if dtype is None else torch.autocast(device.type, dtype)


class GradientStep:
    """Backward, sum over the processes, clip, optimiser."""

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        groups: Groups,
        section: OptimiserSection,
        precision: str,
        device: torch.device,
        world: World,
    ) -> None:
        self.model = model
        self.objective = objective
        self.optimiser = make_optimiser(section.name, groups, section.options)
        self.clip = section.clip
        self.precision = precision
        self.device = device
        self.world = world
        self.scaler = torch.amp.GradScaler(device.type, enabled=precision == "float16")
        self.parameters = [p for group in self.optimiser.param_groups for p in group["params"]]
        for group in self.optimiser.param_groups:
            group["base_lr"] = group["lr"]

    def __call__(self, x: Tensor, y: Tensor, batch: int) -> Tensor:
        """See :class:`Step`."""
        with autocast(self.precision, self.device):
            losses = self.objective(self.model, x, y)  # (samples,)
        self.optimiser.zero_grad(set_to_none=True)
        # The gradient of the mean, handed in rather than computed: a sum and a quotient less to launch.
        self.scaler.scale(losses).backward(losses.new_full(losses.shape, 1 / batch))
        sum_gradients(self.parameters, self.world)
        if self.clip:
            self.scaler.unscale_(self.optimiser)
            nn.utils.clip_grad_norm_(self.parameters, self.clip)
        self.scaler.step(self.optimiser)
        self.scaler.update()
        return losses.detach().sum()

    def set_rate(self, factor: float) -> None:
        """See :class:`Step`."""
        for group in self.optimiser.param_groups:
            group["lr"] = group["base_lr"] * factor

    def state_dict(self) -> dict[str, Any]:
        """See :class:`Step`."""
        return {"optimiser": self.optimiser.state_dict(), "scaler": self.scaler.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See :class:`Step`."""
        self.optimiser.load_state_dict(state["optimiser"])
        self.scaler.load_state_dict(state["scaler"])
