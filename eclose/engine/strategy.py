"""What every strategy can do. A strategy is a way through a space; it keeps no state of its own.

What to try next is a function of the trials so far, hence resuming a run is opening it and going on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, cast

import torch
from torch import nn
from torch.optim import Optimizer

from eclose.config import Config, OptimiserSection, StrategySection
from eclose.engine.selection import Selection, ranked
from eclose.errors import ConfigError
from eclose.registry import Registry
from eclose.runs import Trial
from eclose.spaces import ContinuousSpace, Genotype, Space, assemble, make_space, space_of
from eclose.spaces.architecture import named_architecture
from eclose.tasks import Task
from eclose.train import GradientStep, Objective, Step, Surroundings, share_batch_norm
from eclose.train.graph import Capturable, GraphStep
from eclose.train.memory_layout import lay_out
from eclose.train.metrics import make_metric
from eclose.train.optimisers import Groups, make_optimiser, parameter_groups
from eclose.train.teacher import Lesson, Teacher

strategies = Registry("strategy")

_LONGER = 3  # times a search: a training after it that gives the weights

Role = Literal["teacher", "search", "final", "baseline"]


def make_strategy(config: Config) -> "Strategy":
    """The strategy of a complete configuration."""
    strategy: Strategy = strategies[config.strategy.name].make(**config.strategy.options)
    return strategy


def strategy_class(name: str) -> "type[Strategy]":
    """The class of a strategy, for what is known before one is made."""
    return cast("type[Strategy]", strategies[name].make)


@dataclass(frozen=True)
class Search:
    """Everything a strategy may look at."""

    space: Space
    task: Task
    config: Config
    start: Genotype
    teacher: Teacher | None = None  # whose attention the networks are to have
    given: bool = False  # whether the start was found by another run

    @classmethod
    def of(cls, config: Config, task: Task, start: Genotype | None = None) -> "Search":
        """That of a complete configuration, from ``start`` or else where the space begins."""
        space = make_space(config)
        return cls(space, task, config, start or space.start(task.signature), given=start is not None)

    def space_of(self, genotype: Genotype) -> Space:
        """The space that can build a genotype: that of the search, or another one for a baseline."""
        return self.space if genotype.space == self.space.name else space_of(genotype, self.config)


@dataclass(frozen=True)
class Prepared:
    """A training about to begin: what is trained, how, on what, and with which settings."""

    model: nn.Module  # newly initialised
    step: Step
    task: Task  # a bilevel strategy keeps part of the training samples for the architecture
    config: Config  # a strategy may train trials for fewer epochs
    phases: int = 1  # equal parts of the training, in each of which the schedule of the rate begins anew
    lesson: Lesson | None = None  # of a teacher


class Strategy(Protocol):
    """A way through a space: a class that names this protocol as its base, and writes ``ask`` at least."""

    selection: Selection | None = None  # of those that compare many genotypes
    fitted: bool = False  # True: a fitted model takes part, too; its row has the role ``fitted``
    supernets: bool = False  # True: what it trains are supernets, whose architecture moves
    trials: int = 0  # how many networks it tries if nobody says
    minutes: float = 0.0  # how long a run takes if nobody says; 0: as long as it takes
    samples: int = 1  # of a training set, at least

    def check(self, config: Config, space: Space) -> None:
        """Refuse options that are out of range, and spaces that it cannot search, before anything is written."""

    def effective(self, config: Config) -> dict[str, Any]:
        """Options that are left to follow from the rest of the configuration, as they are used."""
        return {}

    def ask(self, search: Search, trials: Sequence[Trial], generator: torch.Generator) -> Genotype | None:
        """What to try after ``trials``; None when the search is over."""

    def share(self, search: Search, trials: Sequence[Trial]) -> float:
        """Of the time that a run has left, what the training after ``trials`` may take, where ``--minutes`` limits it.

        0: the search is over. What follows it is a training for each final network and baseline: of the same kind, and
        so as long, or three times as long where the search gives no weights.
        """
        left = max(1, search.config.budget.trials) - len(trials)
        longer = _LONGER if is_trained_anew(search) else 1
        return 1 / (max(1, left) + longer * trainings_after(search.config))

    def notices(self, search: Search) -> list[str]:
        """What a user should know of the way before it begins, line by line."""
        return []

    def prepare(self, search: Search, genotype: Genotype, around: Surroundings, role: Role) -> Prepared:
        """The training of a genotype, in the search or after it (``final``); baselines are not asked for."""
        return plain_training(search, genotype, around)

    def goes_on(self, search: Search, trials: Sequence[Trial], genotype: Genotype) -> Trial | None:
        """The trial whose weights the training of what was asked for begins with; None: it begins with new ones."""

    def goes_on_in_the_end(self, search: Search, chosen: Trial) -> bool:
        """Whether the final training of a trial begins with its weights."""
        return False

    def standing(self, search: Search, trials: Sequence[Trial]) -> list[Trial]:
        """The trials of the search that succeeded, the best first: what a run finds is the first one.

        Where trainings of one network are judged together, a trial stands for all of them with their mean figures.
        The fitted model, where it takes part, is among ``trials``.
        """
        objectives = self.selection.objectives if self.selection else ("error",)
        return ranked(trials, make_metric(search.config.task.metric).goal, objectives)

    def shown(self, search: Search, trials: Sequence[Trial]) -> list[Trial]:
        """Trials of the search that stand in the table beside what was found, the best first."""
        return []

    def asks_fit(self, search: Search, trial: Trial) -> bool:
        """Whether it wants to know of a training of the search how well the network knows its training samples."""
        return False

    def summary(self, search: Search, trials: Sequence[Trial]) -> dict[str, Any]:
        """What else there is to say of a search that compared many networks, for ``result.json``."""
        return {}

    def found(self, search: Search, genotype: Genotype, model: nn.Module) -> tuple[Genotype, nn.Module | None]:
        """After a training of the search or a final one: genotype and model themselves, or what is derived from them.

        The model's weights must fit the network that the space builds from the genotype. None: there are no such
        weights before a final training.
        """
        return genotype, model


COMPARED = ("fitted", "search")  # roles of trials among which a search finds its best


def compared(trials: Sequence[Trial]) -> list[Trial]:
    """The trials of the search, and the fitted model where that takes part."""
    return [trial for trial in trials if trial.role in COMPARED]


def is_trained_anew(search: Search) -> bool:
    """Whether a final training must give the weights: the search trains supernets, which are not kept."""
    return gives_no_weights(strategy_class(search.config.strategy.name), search.space)


def gives_no_weights(strategy: "Strategy | type[Strategy]", space: Space) -> bool:
    """Whether supernets are trained of which the space derives another network."""
    return strategy.supernets and isinstance(space, ContinuousSpace) and space.trained_anew


def trainings_after(config: Config) -> int:
    """How many trainings follow the search."""
    return config.final.networks + len(config.compare.baselines) + (config.compare.start is True)


def plain_training(search: Search, genotype: Genotype, around: Surroundings) -> Prepared:
    """The network of a genotype and an ordinary gradient step."""
    config, task = search.config, search.task
    network = search.space_of(genotype).build(genotype, task.signature)
    model = assemble(network, task.signature, task.scale)
    model = share_batch_norm(model, around.world).to(around.device)
    if not is_own(genotype):
        lay_out(model, config.train.precision, around.device)
    optimiser = config.optimiser
    groups = weight_groups(model, optimiser)
    objective = objective_for(search, model, around)
    optimisers = [make_optimiser(optimiser.name, groups, optimiser.options)]
    step = gradient_step(model, objective, optimisers, config, genotype, around)
    # The search's own settings do not concern it: a failed training must not advise to change them.
    return Prepared(model, step, task, replace(config, strategy=StrategySection()), lesson=objective.lesson)


def objective_for(search: Search, model: nn.Module, around: Surroundings) -> Objective:
    """The loss of a training of ``model``, with its distance from the teacher where there is one."""
    lesson = Lesson(search.teacher, model) if search.teacher is not None else None
    return Objective.of(search.task, search.config.loss, around.device, lesson)


def continuous(search: Search) -> ContinuousSpace:
    """The space of a search that moves by gradients; ``check`` has looked."""
    assert isinstance(search.space, ContinuousSpace)
    return search.space


def derived(search: Search, genotype: Genotype, model: nn.Module) -> tuple[Genotype, nn.Module | None]:
    """What a continuous space makes of a trained supernet, ready for raw values."""
    supernet = model.get_submodule("network")
    if not named_architecture(supernet):  # a network without choices
        return genotype, model
    genotype, network = continuous(search).derive(genotype, supernet)
    if network is None or network is supernet:
        return genotype, model if network is supernet else None
    return genotype, assemble(network, search.task.signature, search.task.scale)


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
    return replayed(step, config, genotype, around)


def replayed(step: Capturable, config: Config, genotype: Genotype, around: Surroundings) -> Step:
    """The step, or its replay as a CUDA graph where ``train.graph`` says so."""
    known = step.verbs.static_shapes or (step.verbs.says_shapes and isinstance(step, GradientStep))
    if config.train.graph == "on" and not known:
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
    alone = around.device.type == "cuda" and around.world.size == 1
    return config.train.graph == "auto" and alone and config.train.precision != "float16" and not is_own(genotype)


def is_own(genotype: Genotype) -> bool:
    """Whether the network is the user's own code, of which we know nothing."""
    return ":" in str(genotype.choices.get("backbone", ""))
