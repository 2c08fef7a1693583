"""Strategy ``supernet``: weights and architecture are trained together, on one level (XD paper, section 4)."""

import math
from collections.abc import Sequence

import torch
from torch import nn
from torch.optim import Optimizer

from eclose.config import Config, OptimiserSection
from eclose.engine.strategy import (
    Prepared,
    Role,
    Search,
    Strategy,
    continuous,
    derived,
    gradient_step,
    plain_training,
    strategies,
    weight_groups,
)
from eclose.errors import ConfigError
from eclose.runs import Trial
from eclose.spaces import ContinuousSpace, Genotype, Space, assemble
from eclose.spaces.architecture import named_architecture
from eclose.train import Objective, Step, Surroundings, share_batch_norm
from eclose.train.optimisers import make_optimiser, optimisers


@strategies.register("supernet")
class Supernet(Strategy):
    """Weights and architecture trained together; the result is the supernet itself."""

    def __init__(
        self,
        *,
        optimiser: str = "relative_sgd",
        learning_rate: float = 0.005,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        warmup_epochs: float = 0.0,
    ) -> None:
        self.optimiser = optimiser
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.options = {"momentum": momentum} if "momentum" in optimisers[optimiser].options else {}
        self.warmup_epochs = warmup_epochs

    def check(self, config: Config, space: Space) -> None:
        """See :class:`Strategy`: an architecture to move, an optimiser that can, epochs in which it does."""
        if not isinstance(space, ContinuousSpace):
            raise ConfigError("the strategy 'supernet' moves an architecture: choose a space that has one, such as xd")
        for name in ("learning_rate", "weight_decay", "warmup_epochs"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"strategy.{name} is {getattr(self, name)}, but must be at least 0 and finite")
        if self.warmup_epochs and self.warmup_epochs >= config.train.epochs:
            raise ConfigError(
                f"strategy.warmup_epochs is {self.warmup_epochs}, but there are {config.train.epochs} epochs: "
                "nothing would be searched; lower it, or train longer"
            )
        self._own_optimiser([nn.Parameter(torch.zeros(1))])

    def ask(self, search: Search, trials: Sequence[Trial], generator: torch.Generator) -> Genotype | None:
        """One supernet; --trials N trains it with N seeds."""
        return search.start if len(trials) < max(1, search.config.budget.trials) else None

    def prepare(self, search: Search, genotype: Genotype, around: Surroundings, role: Role) -> Prepared:
        """The relaxed network and a step that moves weights and architecture, each by its own optimiser."""
        if role != "search":
            return plain_training(search, genotype, around)
        config, task = search.config, search.task
        network = continuous(search).supernet(genotype, task.signature)
        model = share_batch_norm(assemble(network, task.signature, task.scale), around.world).to(around.device)
        own = list(named_architecture(model).values())
        optimisers = [_weight_optimiser(model, own, config.optimiser), self._own_optimiser(own)]
        objective = Objective.of(task, config.loss, around.device)
        step = gradient_step(model, objective, optimisers, config, genotype, around)
        return Prepared(model, _WarmUp(step, own, self.warmup_epochs), task, config)

    def found(self, search: Search, genotype: Genotype, model: nn.Module) -> tuple[Genotype, nn.Module | None]:
        """What the space derives from the trained supernet."""
        return derived(search, genotype, model)

    def _own_optimiser(self, own: list[nn.Parameter]) -> Optimizer:
        rates = {"lr": self.learning_rate, "weight_decay": self.weight_decay}
        group = {"name": "architecture", "params": own, **rates}
        return make_optimiser(self.optimiser, [group], self.options)


def _weight_optimiser(model: nn.Module, own: list[nn.Parameter], section: OptimiserSection) -> Optimizer:
    groups = weight_groups(model, section)
    architecture = {id(parameter) for parameter in own}
    for group in groups:
        group["params"] = [parameter for parameter in group["params"] if id(parameter) not in architecture]
    return make_optimiser(section.name, [group for group in groups if group["params"]], section.options)


class _WarmUp:
    """Freezes the architecture at its start for the first epochs, which then cost what the backbone costs."""

    def __init__(self, step: Step, own: list[nn.Parameter], epochs: float) -> None:
        self.step = step
        self.own = own
        self.epochs = epochs
        self.state_dict = step.state_dict
        self.load_state_dict = step.load_state_dict

    def __call__(self, x: torch.Tensor, y: torch.Tensor, batch: int) -> torch.Tensor:
        """See :class:`Step`."""
        return self.step(x, y, batch)

    def set_rate(self, factor: float, epochs: float) -> None:
        """See :class:`Step`."""
        for parameter in self.own:
            parameter.requires_grad_(epochs >= self.epochs)
        self.step.set_rate(factor, epochs)
