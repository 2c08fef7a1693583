"""Transfer: what a run found on one task, as it is, with new weights on another."""

from dataclasses import replace
from pathlib import Path

from eclose.backbones.reference import one_line
from eclose.config import (
    CompareSection,
    Config,
    FinalSection,
    LossSection,
    StrategySection,
    TaskSection,
    TeacherSection,
)
from eclose.engine.plan import check_networks, complete, without_supernets
from eclose.engine.strategy import Search
from eclose.errors import ConfigError, is_out_of_memory
from eclose.signature import Signature
from eclose.spaces import Genotype, space_class, space_of
from eclose.tasks import Task
from eclose.train.losses import check_loss


def for_retraining(config: Config) -> Config:
    """The settings of a run without its search; those of its final trainings, if it had some, count."""
    if config.final.networks:
        config = config.with_stage("final", config.final.options)
    return replace(
        config,
        space=without_supernets(config.space),
        strategy=StrategySection("train"),
        final=FinalSection(),
        compare=CompareSection(),
        teacher=TeacherSection(),
        budget=replace(config.budget, trials=0),  # those of a search are not meant
        run=replace(config.run, workers=1, ray_address=""),
    )


def with_recipe(config: Config, recipe: Config, found: Genotype) -> Config:
    """A retraining with the settings of training of a recipe, and with the sizes that it gives to a network.

    Those of its final trainings count, if it has some. It searches nothing, so that all else of the recipe is left.
    """
    planned = for_retraining(recipe)
    training = {name: getattr(planned, name) for name in ("loss", "optimiser", "schedule", "augment", "train")}
    same = recipe.space.name == config.space.name == found.space
    sizes = space_class(found.space).sizes_of_a_retraining if same else ()
    options = {key: value for key, value in planned.space.options.items() if key in sizes}
    space = replace(config.space, options={**config.space.options, **options})
    return replace(config, space=space, **training)


def for_other_data(section: TaskSection) -> TaskSection:
    """What holds for any data: where files lie, how samples are changed and chosen."""
    kept = ("data_dir", "standardise", "permuted", "permuted_seed", "subset", "subset_eval")
    return TaskSection(**{name: getattr(section, name) for name in kept})


def task_name(section: TaskSection) -> str:
    """That of a task, or of the user's file."""
    return section.name or Path(section.data).stem or "other data"


def carried_over(config: Config, task: Task, found: Genotype, before: Signature) -> Search:
    """The training of ``found`` on ``task``; ``config`` and ``before`` are of the run, and of the data, it is from."""
    shapes = f"found: {_shape(before)}; now: {_shape(task.signature)}"
    refused = f"the network that was found cannot be trained on {task.name} ({shapes})"
    try:
        config = complete(_with_fitting_loss(config, task), task, given=True)
        start = space_of(found, config).carry_over(found, before, task.signature)
        search = Search.of(config, task, start)
        check_networks(search, given=True)
    except ConfigError as error:
        if before == task.signature:  # it is not the data
            raise
        raise ConfigError(f"{refused}: {error}") from None
    except Exception as error:  # whatever a file may say, or a network that was made for one shape
        if is_out_of_memory(error):
            raise
        if before == task.signature:
            told = f"the genotype of '{found.label}' does not describe a network ({one_line(error):.200})"
            raise ConfigError(f"{told}: restore its file") from error
        raise ConfigError(f"{refused}: {one_line(error)}; search on data of this kind") from error
    return search


def _with_fitting_loss(config: Config, task: Task) -> Config:
    """The loss of the run stays if it serves this kind of task, and its targets."""
    try:
        check_loss(config.loss.name, task.signature)
    except ConfigError:
        return replace(config, loss=LossSection())
    if task.zero_targets and config.loss.name == "relative_l2":
        return replace(config, loss=LossSection())
    return config


def _shape(signature: Signature) -> str:
    """``classification of 3 x 32 x 32``."""
    channels = [] if signature.tokens else [signature.channels]
    what = "tokens " if signature.tokens else ""
    return f"{signature.kind} of {what}{' x '.join(map(str, [*channels, *signature.sizes]))}"
