"""From what the user gave to a complete configuration: every default chosen, every name and range checked."""

import dataclasses
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from eclose.backbones import check_output
from eclose.backbones.factory import check_training
from eclose.config import (
    BackboneSection,
    CompareSection,
    Config,
    FinalSection,
    SpaceSection,
    StrategySection,
    TeacherSection,
)
from eclose.engine.baselines import baselines, has_start, of_these
from eclose.engine.executors.ray_cluster import check_workers
from eclose.engine.strategy import Search, Strategy, gives_no_weights, make_strategy, strategies, strategy_class
from eclose.engine.teaching import check_teacher, teacher_genotype
from eclose.errors import ConfigError
from eclose.registry import nearest
from eclose.signature import Signature
from eclose.spaces import ContinuousSpace, Space, backbone_genotype, make_space, space_class, spaces
from eclose.tasks import Task
from eclose.tasks.own_data.doubts import targets_of
from eclose.train import choose_device, usual_batch
from eclose.train.augment import Augmentation, check_augmentation
from eclose.train.device import PRECISIONS, repeats, usual_precision
from eclose.train.losses import check_loss, default_loss, losses, make_loss
from eclose.train.metrics import check_metric, default_metric
from eclose.train.optimisers import make_optimiser, optimisers
from eclose.train.schedules import rate, schedules

USUAL_RATES = {"sgd": 0.05, "relative_sgd": 0.005, "relative_adam": 0.005, "adam": 1e-3, "adamw": 2e-3, "adadelta": 1.0}
_WIDEST = {"adam": 1024, "adamw": 1024}  # others do not move every weight equally far
_CLIP, _WARMUP = 1.0, 0.1
_EPOCHS, _STEPS, _MOST = 30, 8000, 500  # epochs if nobody says, steps on a clock, epochs there at most
_EMA, _SMOOTHING = 0.1, 0.1
_OF_TRAINING = ("loss", "optimiser", "schedule", "augment", "train")  # sections that a final training may change

_MANY = 2**31
_RANGES: dict[str, tuple[int, float]] = {
    "train.epochs": (0, _MANY),
    "train.batch": (0, _MANY),
    "train.evaluate_every": (1, _MANY),
    "train.ema": (0, 0.5),
    "train.patience": (0, _MANY),
    "final.networks": (-1, _MANY),
    "teacher.weight": (0, math.inf),
    "budget.trials": (0, _MANY),
    "budget.minutes": (0, math.inf),
    "budget.training_seconds": (0, math.inf),
    "run.seed": (0, 2**63),
    "run.checkpoint_seconds": (0, math.inf),
    "run.workers": (1, _MANY),
    "optimiser.learning_rate": (0, math.inf),
    "optimiser.weight_decay": (0, math.inf),
    "optimiser.clip": (0, math.inf),
    "optimiser.widest": (0, _MANY),
    "schedule.warmup": (0, 1),
    "schedule.warmup_epochs": (0, math.inf),
    "task.subset": (0, _MANY),
    "task.subset_eval": (0, _MANY),
}


def without_replaced(recipe: Config, changes: Mapping[str, Any]) -> Config:
    """A recipe without what belongs to members that are to be replaced: their options, and the old space's strategy."""
    if isinstance(names := changes.get("compare.baselines"), (tuple, list)):
        recipe = replace(recipe, compare=replace(recipe.compare, options=of_these(recipe.compare.options, names)))
    backbone, space, strategy = (changes.get(f"{name}.name", "") for name in ("backbone", "space", "strategy"))
    if backbone not in ("", recipe.backbone.name):
        recipe = replace(recipe, backbone=BackboneSection())
    before = recipe.strategy.name or _own_strategy(recipe.space.name)
    if space not in ("", recipe.space.name):
        recipe = replace(recipe, space=SpaceSection(space), strategy=replace(recipe.strategy, name=""))
    after = strategy or recipe.strategy.name or _own_strategy(recipe.space.name)
    if after != before:
        recipe = replace(recipe, strategy=StrategySection())
    if after in strategies and not strategy_class(after).supernets:
        recipe = replace(recipe, space=without_supernets(recipe.space))
    return recipe


def without_supernets(section: SpaceSection) -> SpaceSection:
    """A space without the options that only supernets have a use for."""
    unused = space_class(section.name).of_supernets if section.name in spaces else ()
    return replace(section, options={key: value for key, value in section.options.items() if key not in unused})


def _own_strategy(space: str) -> str:
    return space_class(space).strategy


def complete(config: Config, task: Task) -> Config:
    """The configuration with nothing left open for ``task``."""
    signature = task.signature
    config = _with_length(_with_measures(config, task), len(task.train))
    config = _complete_training(config, signature)
    config = _complete_members(config)
    if config.train.graph == "on" and os.environ.get("WORLD_SIZE", "1") != "1":
        raise ConfigError("train.graph works in one process only: leave it out")
    config = replace(config, backbone=_complete_backbone(config, signature))
    metric = config.task.metric or default_metric(signature)
    check_metric(metric, signature)
    kind, axes, channels = signature.kind, signature.axes, task.layout.channels
    config = replace(config, task=replace(config.task, metric=metric, kind=kind, axes=axes, channels=channels))
    space, strategy = make_space(config), make_strategy(config)
    strategy.check(config, space)
    if len(task.train) < strategy.samples:
        raise ConfigError(
            f"the strategy '{config.strategy.name}' needs at least {strategy.samples} training samples, and there "
            f"{'is' if len(task.train) == 1 else 'are'} {len(task.train)}: give it more, or choose another --strategy"
        )
    check_workers(config.run, config.strategy.name, strategy.selection is not None)
    chosen = {"space.options": space.effective(signature), "strategy.options": strategy.effective(config)}
    config = config.with_values({name: options for name, options in chosen.items() if options})
    config = replace(config, compare=_complete_compare(config, space, strategy))
    final = _complete_final(config, space, strategy, signature)
    return replace(config, final=final, teacher=_complete_teacher(config, signature))


def _with_measures(config: Config, task: Task) -> Config:
    """A loss and a metric that can judge the samples.

    Where a target is zero, errors are not relative to it: one such sample would outweigh all others.
    """
    if config.task.metric == "auroc" and task.signature.labels and len(targets_of(task.val).unique()) < 2:
        raise ConfigError(
            "task.metric is 'auroc', but the validation samples are of one class, which it cannot judge: "
            "give samples of others, or choose another metric"
        )
    if not task.zero_targets:
        return config
    if config.task.metric == "relative_l2":
        raise ConfigError(
            "task.metric is 'relative_l2', but some targets in y are zero, and an error relative to zero means "
            "nothing: set it to mse or mae, or leave those samples out"
        )
    loss = config.loss if config.loss.name else replace(config.loss, name="mse")
    return replace(config, task=replace(config.task, metric=config.task.metric or "mse"), loss=loss)


def _complete_compare(config: Config, space: Space, strategy: Strategy) -> CompareSection:
    """Whether the start of a search is trained beside it: on a clock it costs a share, otherwise time of its own.

    Where a search gives no weights, a clock leaves it out unless asked: the final training needs its time.
    """
    given = config.compare
    if given.start is True and not has_start(space):
        raise ConfigError(f"compare.start: a search of '{space.name}' has no single start: leave it out")
    already = space.takes_backbone and config.backbone.name in given.baselines
    usual = bool(config.budget.minutes) and not gives_no_weights(strategy, space)
    wanted = usual if given.start == "auto" else given.start
    return replace(given, start=bool(wanted and has_start(space) and not already))


def _complete_final(config: Config, space: Space, strategy: Strategy, signature: Signature) -> FinalSection:
    """How many networks are trained after the search, and with which settings, those that it changes in full."""
    given, relaxed = config.final, strategy.supernets and isinstance(space, ContinuousSpace)
    anew = gives_no_weights(strategy, space)
    if given.networks < 0 and relaxed and isinstance(space, ContinuousSpace) and space.offline:
        given = replace(given, networks=1, all_samples=False)  # a comparison is fair on the same samples
    networks = given.networks if given.networks >= 0 else int(anew or strategy.selection is not None)
    if anew and not networks:
        raise ConfigError(f"final.networks is 0, but what the space '{space.name}' finds is trained anew: leave it out")
    return replace(given, networks=networks, options=_stage_options(config, "final", given.options, signature))


def _complete_teacher(config: Config, signature: Signature) -> TeacherSection:
    """The teacher with the options of its network and the settings of its training, those that it changes in full."""
    given = config.teacher
    if given.run and given.network:
        raise ConfigError("teacher.run and teacher.network name two teachers: leave one out")
    if not (given.run or given.network):
        open_ = [name for name in ("weights", "options", "final") if getattr(given, name)]
        if open_:
            raise ConfigError(f"teacher.{open_[0]} is given, but no teacher: name teacher.run or teacher.network")
        return given
    if given.run and (given.weights or given.options):
        named = "weights" if given.weights else next(iter(given.options))
        raise ConfigError(f"teacher.{named} does not concern the teacher {given.run}: leave it out")
    settings = {name: values for name, values in given.options.items() if name != "backbone"}
    if given.weights and settings:
        raise ConfigError(f"teacher.{next(iter(settings))} is of no use: {given.weights} is not trained")
    options = _stage_options(config, "teacher", settings, signature)
    if given.network:
        options["backbone"] = teacher_genotype(config, signature).choices["options"]
    places = {name: os.path.abspath(value) for name in ("run", "weights") if (value := getattr(given, name))}
    return replace(given, options=options, **places)


def _stage_options(config: Config, stage: str, given: Mapping[str, Any], signature: Signature) -> dict[str, Any]:
    """The settings that a stage of its own changes, section by section in full."""
    changed = config
    for name, values in given.items():
        if name not in _OF_TRAINING or not isinstance(values, Mapping):
            raise ConfigError(f"{stage}.{name} is no setting of a training; {nearest(name, _OF_TRAINING)}")
        section = getattr(config, name)
        if "name" in values and values["name"] != section.name:  # another member: nothing of the first one stays
            changed = replace(changed, **{name: type(section)()})
        changed = changed.with_values({f"{name}.{key}": value for key, value in values.items()})
    epochs, batch = changed.train.epochs or config.train.epochs, changed.train.batch or config.train.batch
    try:
        changed = replace(changed, train=replace(changed.train, epochs=epochs, batch=batch))
        changed = _complete_training(changed, signature)
    except ConfigError as error:
        raise ConfigError(f"[{stage}] {error}") from None
    return {name: dataclasses.asdict(getattr(changed, name)) for name in given}


def _complete_backbone(config: Config, signature: Signature) -> BackboneSection:
    given = config.backbone
    if not space_class(config.space.name).takes_backbone:
        if given.name or given.options:
            raise ConfigError(
                f"the space '{config.space.name}' makes whole networks: leave out --backbone {given.name}"
            )
        return given
    usual = space_class(config.space.name).usual_backbone(signature)
    genotype = backbone_genotype(given.name or usual, given.options, signature)
    return replace(given, name=genotype.choices["backbone"], options=genotype.choices["options"])


def check_networks(search: Search, given: bool = False) -> None:
    """Build the network that a search starts from, and those beside it; look at their outputs and their gradients.

    Networks that a space draws by itself are valid as drawn, and fail one by one if they fail. One that is ``given``
    was found elsewhere. Whether a network learns from single samples, its space does not know.
    """
    config, signature = search.config, search.task.signature
    if not search.given:
        _check_of_use(search)
    genotypes, batch = [*baselines(config, signature).values()], _smallest_batch(config)
    alone = batch == 1 and isinstance(search.space, ContinuousSpace)
    if given or alone or search.space.takes_backbone:
        genotypes.insert(0, search.start)
    with torch.random.fork_rng([]):
        for genotype in genotypes:
            network, name = search.space_of(genotype).build(genotype, signature), genotype.label
            check_output(network, signature, name)
            check_training(network, signature, name, min(batch, 2))
        check_teacher(search)


def _check_of_use(search: Search) -> None:
    """Refuse options of a supernet where none is trained; a network that was found keeps those of its search."""
    section, strategy = search.config.space, search.config.strategy.name
    if strategy_class(strategy).supernets:
        return
    for option in search.space.of_supernets:
        if section.options.get(option, usual := spaces[section.name].options[option]) != usual:
            raise ConfigError(
                f"space.{option} is {section.options[option]}, but is for supernets only, and the strategy "
                f"'{strategy}' trains none: leave it out, or say --strategy {_own_strategy(section.name)}"
            )


def _smallest_batch(config: Config) -> int:
    """Of all trainings of a run."""
    stages = (options.get("train", {}) for options in (config.final.options, config.teacher.options))
    return min([config.train.batch, *(stage["batch"] for stage in stages if "batch" in stage)])


def _with_usual_rate(config: Config) -> Config:
    """A rate that was left open comes with what keeps it safe for any network, and with averaged weights.

    A rate that was given is used as it is.

    Measured on Poisson's equation with a network of 13 x 13 kernels: the usual rate alone ends at a constant.
    """
    optimiser, schedule = config.optimiser, config.schedule
    if schedule.warmup and schedule.warmup_epochs:
        raise ConfigError("schedule.warmup and schedule.warmup_epochs say the same in two ways: leave one out")
    if optimiser.learning_rate:
        return config
    name = optimisers[optimiser.name].name
    widest, clip = optimiser.widest or _WIDEST.get(name, 0), optimiser.clip or _CLIP
    warmup = 0.0 if schedule.warmup_epochs else schedule.warmup or _WARMUP
    return replace(
        config,
        optimiser=replace(optimiser, learning_rate=USUAL_RATES[name], widest=widest, clip=clip),
        schedule=replace(schedule, warmup=warmup),
        train=replace(config.train, ema=config.train.ema or _EMA),
    )


def _smoothing(loss: str, metric: str, signature: Signature) -> dict[str, float]:
    """Label smoothing, unless what counts are the probabilities themselves, which it pulls towards the middle."""
    fits = loss == "cross_entropy" and signature.kind == "classification" and metric not in ("nll", "perplexity")
    return {"label_smoothing": _SMOOTHING} if fits else {}


def _complete_training(config: Config, signature: Signature) -> Config:
    """What one training needs: options of the named members, the usual learning rate."""
    _check_ranges(config)
    usual = not config.optimiser.learning_rate
    config = _with_usual_rate(config)
    optimiser, schedule, loss = config.optimiser, config.schedule, config.loss.name or default_loss(signature)
    rates = {"lr": optimiser.learning_rate, "weight_decay": optimiser.weight_decay}
    group = {"params": [nn.Parameter(torch.zeros(1))], **rates}
    make_optimiser(optimiser.name, [group], optimiser.options)  # checks the options, as the next lines do
    for epoch in (0, config.train.epochs):
        rate(schedule.name, epoch, config.train.epochs, schedule.warmup_epochs, schedule.options)
    check_loss(loss, signature)
    smoothing = _smoothing(loss, config.task.metric, signature) if usual else {}
    loss_options = losses[loss].complete({**smoothing, **config.loss.options}, "loss")
    _try_loss(loss, loss_options, signature)
    augment = Augmentation(config.augment.names, config.augment.options)
    check_augmentation(config.augment.names, signature, pointwise=config.task.standardise == "pointwise")
    optimiser_options = optimisers[optimiser.name].complete(optimiser.options, "optimiser")
    precision = config.train.precision
    if precision == "auto":
        precision = usual_precision(choose_device(config.run.device))
    return replace(
        config,
        train=replace(config.train, precision=precision),
        loss=replace(config.loss, name=loss, options=loss_options),
        optimiser=replace(optimiser, options=optimiser_options),
        schedule=replace(schedule, options=schedules[schedule.name].complete(schedule.options, "schedule")),
        augment=replace(config.augment, options=augment.options),
    )


def _complete_members(config: Config) -> Config:
    """Options of space and strategy, the space's own strategy, the actual device."""
    space, strategy = config.space.name, config.strategy.name or _own_strategy(config.space.name)
    threads = config.run.threads or torch.get_num_threads()
    device = choose_device(config.run.device).type if config.run.device == "auto" else config.run.device
    made = strategy_class(strategy)
    trials, minutes = config.budget.trials or made.trials, config.budget.minutes or made.minutes
    _check_options(config, space, strategy)
    own = space_class(space).strategy_options if strategy == _own_strategy(space) else {}
    options = strategies[strategy].complete({**own, **config.strategy.options}, "strategy")
    return replace(
        config,
        budget=replace(config.budget, trials=trials, minutes=minutes),
        space=replace(config.space, options=spaces[space].complete(config.space.options, "space")),
        strategy=replace(config.strategy, name=strategy, options=options),
        run=replace(config.run, device=device, threads=threads, deterministic=repeats(config.run)),
    )


def _check_options(config: Config, space: str, strategy: str) -> None:
    """Refuse an option of another space or strategy, and say which."""
    own = {key: name for name in reversed(list(spaces)) for key in spaces[name].options}
    for key in config.space.options:
        if key not in spaces[space].options and key in own:
            raise ConfigError(f"space: '{space}' has no option '{key}', but '{own[key]}' has: say --space {own[key]}")
    for key in config.strategy.options:
        others = [name for name in strategies if key in strategies[name].options]
        if strategy not in others and others:
            ways = [f"--space {name}" for name in spaces if _own_strategy(name) in others]
            way = ways[0] if ways else f"--space xd --strategy {others[0]}"
            if _own_strategy(space) in others:
                way = f"--strategy {_own_strategy(space)}"
            elif all(strategy_class(each).supernets for each in (others[0], _own_strategy(space))):
                way = f"--strategy {others[0]}"
            raise ConfigError(f"strategy: '{strategy}' has no option '{key}', but '{others[0]}' has: say {way}")


def _with_length(config: Config, samples: int) -> Config:
    """How much is learned at a time, and for how long at most.

    On a clock the number of epochs is an upper limit only: so many that the steps are enough for any network.
    """
    train = config.train
    batch = train.batch or usual_batch(samples) if samples > 1 else 1
    timed = config.budget.minutes or strategy_class(config.strategy.name or _own_strategy(config.space.name)).minutes
    enough = min(max(_EPOCHS, _STEPS * batch // samples), _MOST) if timed else _EPOCHS
    return replace(config, train=replace(train, batch=batch, epochs=train.epochs or enough))


def _try_loss(name: str, options: dict[str, Any], signature: Signature) -> None:
    """An option out of range shows here, not in a training."""
    values = torch.zeros(1, signature.outputs)
    make_loss(name, options)(values, torch.zeros(1, dtype=torch.long) if signature.labels else values)


def _check_ranges(config: Config) -> None:
    ranges = {**_RANGES, "run.threads": (0, 4 * (os.cpu_count() or 1))}
    for name, (least, most) in ranges.items():
        section, _, field = name.partition(".")
        value = getattr(getattr(config, section), field)
        if not least <= value <= most or math.isinf(value):
            highest = f"at most {most}" if most < math.inf else "finite"
            wanted = highest if value > least else f"at least {least}"
            raise ConfigError(f"{name} is {value}, but must be {wanted}")
    device, precision = choose_device(config.run.device).type, config.train.precision
    if config.train.graph == "on" and (device != "cuda" or precision == "float16"):
        raise ConfigError("train.graph needs a CUDA device and another precision than float16: leave it out")
    for name, value, known in (
        ("train.keep", config.train.keep, ("best", "last")),
        ("train.precision", config.train.precision, ("auto", *PRECISIONS)),
        ("train.graph", config.train.graph, ("auto", "on", "off")),
    ):
        if value not in known:
            raise ConfigError(f"{name} is '{value}'; {nearest(value, known)}")
