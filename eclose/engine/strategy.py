"""What every strategy can do. A strategy is a way through a space; it keeps no state of its own.

What to try next is a function of the trials so far, hence resuming a run is opening it and going on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import nn
from torch.optim import Optimizer

from eclose.config import Config, OptimiserSection, StrategySection
from eclose.engine.selection import Selection
from eclose.errors import ConfigError
from eclose.registry import Registry
from eclose.runs import Trial
from eclose.spaces import Genotype, Space, assemble, space_of
from eclose.tasks import Task
from eclose.train import GradientStep, Objective, Step, Surroundings, share_batch_norm
from eclose.train.graph import GraphStep
from eclose.train.optimisers import Groups, make_optimiser, parameter_groups

strategies = Registry("strategy")


@dataclass(frozen=True)
class Search:
    """Everything a strategy may look at."""

    space: Space
    task: Task
    config: Config
    start: Genotype


@dataclass(frozen=True)
class Prepared:
    """A training about to begin: what is trained, how, on what, and with which settings."""

    model: nn.Module  # newly initialised
    step: Step
    task: Task  # a bilevel strategy keeps part of the training samples for the architecture
    config: Config  # a strategy may train trials for fewer epochs


class Strategy(Protocol):
    """A way through a space.

    One with options that may be left to follow from the rest of the configuration has ``effective(config)``, which
    gives them as they are used.
    """

    selection: Selection | None  # of those that compare many genotypes

    def check(self, network: nn.Module) -> None:
        """Refuse options that do not fit the network a search starts with, before anything is written.

        Strategies with a selection have no such network: they get an empty one.
        """

    def ask(self, search: Search, trials: Sequence[Trial], generator: torch.Generator) -> Genotype | None:
        """What to try after ``trials``; None when the search is over."""

    def prepare(self, search: Search, genotype: Genotype, around: Surroundings) -> Prepared:
        """The training of a genotype."""

    def found(self, search: Search, genotype: Genotype, model: nn.Module) -> tuple[Genotype, nn.Module]:
        """After training: the genotype and model themselves, or what is derived from the trained model.

        The model's weights must fit the network that the space builds from the genotype.
        """


def plain_training(search: Search, genotype: Genotype, around: Surroundings) -> Prepared:
    """The network of a genotype and an ordinary gradient step."""
    config, task = search.config, search.task
    network = space_of(genotype, config).build(genotype, task.signature)
    model = assemble(network, task.signature, task.scale)
    model = share_batch_norm(model, around.world).to(around.device)
    optimiser = config.optimiser
    groups = weight_groups(model, optimiser)
    objective = Objective.of(task, config.loss, around.device)
    optimisers = [make_optimiser(optimiser.name, groups, optimiser.options)]
    step = gradient_step(model, objective, optimisers, config, genotype, around)
    # The search's own settings do not concern it: a failed training must not advise to change them.
    return Prepared(model, step, task, replace(config, strategy=StrategySection()))


def weight_groups(model: nn.Module, section: OptimiserSection) -> Groups:
    """The parameters of a model by what the configuration says of their rates and decay."""
    rate, decay, vectors = section.learning_rate, section.weight_decay, section.decay_vectors
    return parameter_groups(model, rate, decay, decay_vectors=vectors, widest=section.widest)


def gradient_step(
    model: nn.Module,
    objective: Objective,
    optimisers: Sequence[Optimizer],
    config: Config,
    genotype: Genotype,
    around: Surroundings,
) -> Step:
    """A step that moves all that the optimisers hold, replayed as a CUDA graph where ``train.graph`` says so."""
    step = GradientStep(
        model, objective, optimisers, config.optimiser.clip, config.train.precision, around.device, around.world
    )
    if config.train.graph == "on" and not step.verbs.static_shapes:
        raise ConfigError(
            "this network changes its shapes while it is trained, which no CUDA graph can: leave train.graph out"
        )
    if config.train.graph == "on":
        return GraphStep(step)
    tried = step.verbs.static_shapes and tries_graph(config, genotype, around)
    return GraphStep(step, required=False) if tried else step


def tries_graph(config: Config, genotype: Genotype, around: Surroundings) -> bool:
    """Whether ``auto`` tries a CUDA graph.

    It leaves out networks of the user's own: numbers that they draw in Python would be drawn once and for all.
    """
    own = ":" in str(genotype.choices.get("backbone", ""))
    alone = around.device.type == "cuda" and around.world.size == 1
    return config.train.graph == "auto" and alone and config.train.precision != "float16" and not own
