"""From what the user gave to a complete configuration: every default chosen, every name and range checked."""

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from eclose.backbones import check_output, default_backbone
from eclose.backbones.factory import check_training
from eclose.config import BackboneSection, Config, SpaceSection, StrategySection
from eclose.engine.baselines import baselines, of_these
from eclose.engine.ray_cluster import check_workers
from eclose.engine.strategy import Strategy, strategies
from eclose.errors import ConfigError
from eclose.registry import nearest
from eclose.signature import Signature
from eclose.spaces import Genotype, Space, backbone_genotype, space_of, spaces
from eclose.tasks import Task
from eclose.train import choose_device, usual_batch
from eclose.train.augment import Augmentation, check_augmentation
from eclose.train.device import PRECISIONS
from eclose.train.losses import check_loss, default_loss, losses, make_loss
from eclose.train.metrics import check_metric, default_metric
from eclose.train.optimisers import make_optimiser, optimisers
from eclose.train.schedules import rate, schedules

USUAL_RATES = {"sgd": 0.05, "adam": 1e-3, "adamw": 2e-3, "adadelta": 1.0}
_WIDEST = {"adam": 1024, "adamw": 1024}  # others do not move every weight equally far
_CLIP, _WARMUP = 1.0, 0.1

_MANY = 2**31
_RANGES: dict[str, tuple[int, float]] = {
    "train.epochs": (1, _MANY),
    "train.batch": (0, _MANY),
    "train.evaluate_every": (1, _MANY),
    "train.ema": (0, 0.5),
    "train.patience": (0, _MANY),
    "budget.trials": (0, _MANY),
    "budget.seconds": (0, math.inf),
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
    if (strategy or recipe.strategy.name or _own_strategy(recipe.space.name)) != before:
        recipe = replace(recipe, strategy=StrategySection())
    return recipe


def _own_strategy(space: str) -> str:
    return str(vars(spaces[space].make)["strategy"])


def complete(config: Config, task: Task) -> Config:
    """The configuration with nothing left open for ``task``."""
    _check_ranges(config)
    config = _complete_members(_with_usual_rate(config))
    if config.train.graph == "on" and os.environ.get("WORLD_SIZE", "1") != "1":
        raise ConfigError("train.graph works in one process only: leave it out")
    strategy: Strategy = strategies[config.strategy.name].make(**config.strategy.options)
    _check_warmup(config)
    check_workers(config.run, config.strategy.name, strategy.selection is not None)
    if strategy.selection is not None:
        strategy.check(nn.Identity())
    signature = task.signature
    metric = config.task.metric or default_metric(signature)
    loss = config.loss.name or default_loss(signature)
    check_metric(metric, signature)
    check_loss(loss, signature)
    loss_options = losses[loss].complete(config.loss.options, "loss")
    _try_loss(loss, loss_options, signature)
    check_augmentation(config.augment.names, signature)
    config = _settled(replace(config, backbone=_complete_backbone(config, signature)), strategy, signature)
    return replace(
        config,
        task=replace(
            config.task, metric=metric, kind=signature.kind, axes=signature.axes, channels=task.layout.channels
        ),
        loss=replace(config.loss, name=loss, options=loss_options),
        train=replace(config.train, batch=_batch(config.train.batch, len(task.train))),
    )


def _check_warmup(config: Config) -> None:
    """Refuse a search that would end before it begins."""
    warmup, epochs = config.strategy.options.get("warmup_epochs", 0.0), config.train.epochs
    if warmup and warmup >= epochs:
        raise ConfigError(
            f"strategy.warmup_epochs is {warmup}, but there are {epochs} epochs: "
            "nothing would be searched; lower it, or train longer"
        )


def _settled(config: Config, strategy: Strategy, signature: Signature) -> Config:
    """Options that are left to follow from others, written out as they are used."""
    space: Space = spaces[config.space.name].make(config, **config.space.options)
    for name, member, given in (("space", space, signature), ("strategy", strategy, config)):
        if hasattr(member, "effective"):
            config = config.with_values({f"{name}.options": member.effective(given)})
    return config


def _complete_backbone(config: Config, signature: Signature) -> BackboneSection:
    given = config.backbone
    if not getattr(spaces[config.space.name].make, "takes_backbone", True):
        if given.name or given.options:
            raise ConfigError(
                f"the space '{config.space.name}' makes whole networks: leave out --backbone {given.name}"
            )
        return given
    genotype = backbone_genotype(given.name or default_backbone(signature), given.options, signature)
    return replace(given, name=genotype.choices["backbone"], options=genotype.choices["options"])


def check_networks(config: Config, signature: Signature, start: Genotype | None) -> None:
    """Build what the run will train first, and the baselines; look at their outputs and their gradients.

    Networks that a strategy draws one by one are valid as drawn, and fail one by one if they fail.
    """
    space: Space = spaces[config.space.name].make(config, **config.space.options)
    strategy: Strategy = strategies[config.strategy.name].make(**config.strategy.options)
    genotypes = [*baselines(config, signature).values()]
    if strategy.selection is None:
        start = start or space.start(signature)
        genotypes.insert(0, start)
    elif hasattr(space, "sample"):
        if strategy.selection.learn and not hasattr(space, "learned"):
            raise ConfigError(f"strategy.learn: the space '{config.space.name}' has nothing to learn; leave it out")
    else:
        raise ConfigError(
            f"the strategy '{config.strategy.name}' draws networks, which the space '{config.space.name}' cannot: "
            "choose a space that can, such as einspace"
        )
    with torch.random.fork_rng([]):
        for genotype in genotypes:
            network, name = space_of(genotype, config).build(genotype, signature), label(genotype)
            if genotype is start:
                strategy.check(network)
            check_output(network, signature, name)
            check_training(network, signature, name, min(config.train.batch, 2))


def label(genotype: Genotype) -> str:
    """A short name for tables: ``lenet``, ``lenet (xd)``, ``child of resnet18 9bc1``, ``mutated 9bc1``."""
    backbone, name = genotype.choices.get("backbone"), genotype.choices.get("name")
    if backbone is not None:
        return str(backbone) if genotype.space == "backbone" else f"{backbone} ({genotype.space})"
    kin = genotype.choices.get("kin") or genotype.origin or genotype.space
    return str(name or f"{kin} {genotype.hash[:4]}")


def _with_usual_rate(config: Config) -> Config:
    """A rate that was left open comes with what keeps it safe for any network; a rate that was given is used as it is.

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
    )


def _complete_members(config: Config) -> Config:
    """Options of the named members, the space's own strategy, the usual learning rate, the actual device."""
    space = spaces[config.space.name]
    strategy = config.strategy.name or _own_strategy(config.space.name)
    optimiser, schedule = config.optimiser, config.schedule
    rates = {"lr": optimiser.learning_rate, "weight_decay": optimiser.weight_decay}
    group = {"params": [nn.Parameter(torch.zeros(1))], **rates}
    make_optimiser(optimiser.name, [group], optimiser.options)  # checks the options, as the next lines do
    for epoch in (0, config.train.epochs):
        rate(schedule.name, epoch, config.train.epochs, schedule.warmup_epochs, schedule.options)
    augment = Augmentation(config.augment.names, config.augment.options)
    threads = config.run.threads or torch.get_num_threads()
    device = choose_device(config.run.device).type if config.run.device == "auto" else config.run.device
    trials = config.budget.trials or getattr(strategies[strategy].make, "trials", 0)
    return replace(
        config,
        budget=replace(config.budget, trials=trials),
        space=replace(config.space, options=space.complete(config.space.options, "space")),
        strategy=replace(
            config.strategy,
            name=strategy,
            options=strategies[strategy].complete(config.strategy.options, "strategy"),
        ),
        optimiser=replace(
            optimiser,
            options=optimisers[optimiser.name].complete(optimiser.options, "optimiser"),
        ),
        schedule=replace(schedule, options=schedules[schedule.name].complete(schedule.options, "schedule")),
        augment=replace(config.augment, options=augment.options),
        run=replace(config.run, device=device, threads=threads),
    )


def _batch(asked: int, samples: int) -> int:
    return asked or usual_batch(samples) if samples > 1 else 1


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
        ("train.precision", config.train.precision, tuple(PRECISIONS)),
        ("train.graph", config.train.graph, ("auto", "on", "off")),
    ):
        if value not in known:
            raise ConfigError(f"{name} is '{value}'; {nearest(value, known)}")
