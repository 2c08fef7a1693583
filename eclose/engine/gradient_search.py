"""What strategies share that move an architecture by gradients: its own optimiser, a warm-up, one supernet a seed."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from eclose.config import Config
from eclose.engine.strategy import Search, Strategy, continuous, derived, weight_groups
from eclose.errors import ConfigError
from eclose.plural import plural
from eclose.runs import Trial
from eclose.spaces import ContinuousSpace, Genotype, Space, assemble
from eclose.spaces.architecture import named_architecture
from eclose.train import Step, Surroundings, share_batch_norm
from eclose.train.optimisers import make_optimiser, optimisers

USUAL = {
    "relative_sgd": (0.005, 0.005),
    "relative_adam": (0.005, 0.005),
    "adam": (1e-3, 0.0),
    "adamw": (1e-3, 0.0),
    "sgd": (0.01, 0.0),
    "adadelta": (1.0, 0.0),
}
"""Rate and decay of an architecture where they are left open."""


class GradientSearch(Strategy):
    """A strategy that trains a supernet; how weights and architecture take turns is that of its subclasses."""

    supernets = True

    def __init__(
        self,
        optimiser: str,
        learning_rate: float,
        momentum: float,
        weight_decay: float,
        scheduled: bool,
        warmup_epochs: float,
    ) -> None:
        self.optimiser = optimiser
        usual_rate, usual_decay = USUAL[optimisers[optimiser].name]
        self.learning_rate = learning_rate or usual_rate
        self.weight_decay = usual_decay if weight_decay == -1.0 else weight_decay
        self.scheduled, self.momentum = scheduled, momentum
        own = optimisers[optimiser].options
        self.options: dict[str, Any] = {"momentum": momentum} if "momentum" in own else {}
        if "betas" in own:  # the first of them is the momentum of Adam
            self.options["betas"] = (momentum, own["betas"][1])
        self.warmup_epochs = warmup_epochs

    def check(self, config: Config, space: Space) -> None:
        """See :class:`Strategy`: an architecture to move, an optimiser that can, epochs in which it does."""
        if not isinstance(space, ContinuousSpace):
            raise ConfigError(
                f"the strategy '{config.strategy.name}' moves an architecture, and the space '{space.name}' has none: "
                "choose one that has, such as --space xd"
            )
        for name in ("learning_rate", "weight_decay", "warmup_epochs"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"strategy.{name} is {getattr(self, name)}, but must be at least 0 and finite")
        if self.warmup_epochs and self.warmup_epochs >= config.train.epochs:
            raise ConfigError(
                f"strategy.warmup_epochs is {self.warmup_epochs}, but a training has "
                f"{plural(config.train.epochs, 'epoch')}: nothing would be searched; lower it, or train longer"
            )
        if self.options and not 0 <= self.momentum < 1:
            raise ConfigError(f"strategy.momentum is {self.momentum}, but must be at least 0 and below 1")
        self.architecture_optimiser([nn.Parameter(torch.zeros(1))])

    def effective(self, config: Config) -> dict[str, Any]:
        """Rate and decay, which may be left to the optimiser: 0 and -1."""
        return {"learning_rate": self.learning_rate, "weight_decay": self.weight_decay}

    def notices(self, search: Search) -> list[str]:
        """See :class:`Strategy`: a clock may end a search before its architecture moves."""
        if not (self.warmup_epochs and search.config.budget.minutes):
            return []
        return [
            f"strategy.warmup_epochs is {self.warmup_epochs:g}: where --minutes end the search before, its "
            "architecture stays at the start"
        ]

    def ask(self, search: Search, trials: Sequence[Trial], generator: torch.Generator) -> Genotype | None:
        """One supernet; --trials N trains it with N seeds."""
        return search.start if len(trials) < max(1, search.config.budget.trials) else None

    def found(self, search: Search, genotype: Genotype, model: nn.Module) -> tuple[Genotype, nn.Module | None]:
        """What the space derives from the trained supernet."""
        return derived(search, genotype, model)

    def supernet(self, search: Search, genotype: Genotype, around: Surroundings) -> nn.Module:
        """The relaxed network, newly initialised, for raw values."""
        network = continuous(search).supernet(genotype, search.task.signature)
        model = assemble(network, search.task.signature, search.task.scale)
        return share_batch_norm(model, around.world).to(around.device)

    def architecture_optimiser(self, own: list[nn.Parameter]) -> Optimizer:
        """That of the strategy's own options; ``scheduled`` says whether its rate follows that of the weights."""
        rates = {"lr": self.learning_rate, "weight_decay": self.weight_decay, "scheduled": self.scheduled}
        return make_optimiser(self.optimiser, [{"name": "architecture", "params": own, **rates}], self.options)


def weight_optimiser(model: nn.Module, config: Config) -> Optimizer:
    """That of the configuration, for all parameters but the architecture."""
    architecture = {id(parameter) for parameter in named_architecture(model).values()}
    groups = weight_groups(model, config.optimiser)
    for group in groups:
        group["params"] = [parameter for parameter in group["params"] if id(parameter) not in architecture]
    kept = [group for group in groups if group["params"]]
    return make_optimiser(config.optimiser.name, kept, config.optimiser.options)


class WarmUp:
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
