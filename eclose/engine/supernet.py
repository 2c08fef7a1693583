"""Strategy ``supernet``: weights and architecture are trained together, on one level (XD paper, section 4).

With ``restarts`` it is the Supernet SGDR of the Chrysalis paper (C.1.3): in every phase the rate and the weights begin
anew, the architecture goes on.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from eclose.config import Config
from eclose.engine.gradient_search import GradientSearch, WarmUp, weight_optimiser
from eclose.engine.strategy import (
    Prepared,
    Role,
    Search,
    gradient_step,
    objective_for,
    plain_training,
    strategies,
)
from eclose.errors import ConfigError
from eclose.spaces import Genotype, Space
from eclose.spaces.architecture import named_architecture
from eclose.train import Step, Surroundings
from eclose.train.schedules import phase_of
from eclose.train.seeds import reseed


@strategies.register("supernet")
class Supernet(GradientSearch):
    """Weights and architecture trained together; the result is the supernet itself."""

    def __init__(
        self,
        *,
        optimiser: str = "relative_adam",
        learning_rate: float = 0.0,
        momentum: float = 0.9,
        weight_decay: float = -1.0,
        scheduled: bool = True,
        warmup_epochs: float = 0.0,
        restarts: int = 1,
    ) -> None:
        super().__init__(optimiser, learning_rate, momentum, weight_decay, scheduled, warmup_epochs)
        self.restarts = restarts

    def check(self, config: Config, space: Space) -> None:
        """See :class:`Strategy`; phases of an epoch at least, whose begin is known before."""
        super().check(config, space)
        if not 1 <= self.restarts <= max(1, config.train.epochs):
            raise ConfigError(
                f"strategy.restarts is {self.restarts}, but must be at least 1 and at most {config.train.epochs}, "
                f"the number of epochs: {'raise --epochs' if self.restarts > 1 else 'leave it out'}"
            )
        if self.restarts > 1:
            config.budget.need_epochs("strategy.restarts", "divides")

    def prepare(self, search: Search, genotype: Genotype, around: Surroundings, role: Role) -> Prepared:
        """The relaxed network and a step that moves weights and architecture, each by its own optimiser."""
        if role != "search":
            return plain_training(search, genotype, around)
        config, task = search.config, search.task
        model = self.supernet(search, genotype, around)
        own = list(named_architecture(model).values())
        if not own:  # sizes that were found do not move any more
            return plain_training(search, genotype, around)
        optimisers = [weight_optimiser(model, config), self.architecture_optimiser(own)]
        objective = objective_for(search, model, around)
        step: Step = gradient_step(model, objective, optimisers, config, genotype, around)
        step = WarmUp(step, own, self.warmup_epochs)
        if self.restarts > 1:

            def anew(phase: int) -> nn.Module:
                with torch.random.fork_rng([]):
                    reseed(torch.device("cpu"), around.seed, "restart", phase)
                    return self.supernet(search, genotype, around)

            step = _Restarts(step, model, optimisers, anew, config.train.epochs, self.restarts)
        return Prepared(model, step, task, config, self.restarts, objective.lesson)


class _Restarts:
    """Gives the model new weights when a phase begins, and its optimisers a new start."""

    def __init__(
        self,
        step: Step,
        model: nn.Module,
        optimisers: Sequence[Optimizer],
        anew: Callable[[int], nn.Module],
        epochs: int,
        phases: int,
    ) -> None:
        self.step, self.model, self.optimisers = step, model, list(optimisers)
        self.anew, self.epochs, self.phases = anew, epochs, phases
        self.phase = 0

    def __call__(self, x: Tensor, y: Tensor, batch: int) -> Tensor:
        """See :class:`Step`."""
        return self.step(x, y, batch)

    def set_rate(self, factor: float, epochs: float) -> None:
        """See :class:`Step`."""
        phase = phase_of(epochs, self.epochs, self.phases)
        if phase > self.phase:
            self.phase = phase
            _begin_anew(self.model, self.anew(phase))
            for optimiser in self.optimisers:
                _forget(optimiser)
        self.step.set_rate(factor, epochs)

    def state_dict(self) -> dict[str, Any]:
        """See :class:`Step`."""
        return {"step": self.step.state_dict(), "phase": self.phase}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See :class:`Step`."""
        self.step.load_state_dict(state["step"])
        self.phase = state["phase"]


@torch.no_grad()
def _begin_anew(model: nn.Module, fresh: nn.Module) -> None:
    """Weights and running statistics of another network like this one. In place: a CUDA graph keeps addresses."""
    kept = set(named_architecture(model))
    for path, module in model.named_modules():
        if hasattr(module, "arch_parameters"):  # what it keeps beside its parameters is architecture, too
            kept |= {f"{path}.{name}".lstrip(".") for name, _ in module.named_buffers(recurse=False)}
    saved = model.state_dict().keys()
    values = dict([*fresh.named_parameters(), *fresh.named_buffers()])
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if name not in saved or name in kept:
            continue
        if name not in values or values[name].shape != tensor.shape:
            raise ConfigError(f"'{name}' has changed its shape, so it cannot begin anew: leave strategy.restarts out")
        tensor.copy_(values[name])


def _forget(optimiser: Optimizer) -> None:
    """Zero is what the state of every optimiser begins with. In place, as above."""
    for state in optimiser.state.values():
        for value in state.values():
            if isinstance(value, Tensor):
                value.zero_()
