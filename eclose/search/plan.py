"""From what the user gave to a complete configuration: every default chosen, every name and range checked."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from eclose.backbones import check_output, default_backbone
from eclose.config import Config
from eclose.errors import ConfigError
from eclose.registry import nearest
from eclose.search.strategy import strategies
from eclose.signature import Signature
from eclose.spaces import Genotype, Space, backbone_genotype, space_of, spaces
from eclose.tasks import Task
from eclose.train import choose_device, usual_batch
from eclose.train.augment import Augmentation, check_augmentation
from eclose.train.device import PRECISIONS
from eclose.train.losses import check_loss, default_loss, losses
from eclose.train.metrics import check_metric, default_metric
from eclose.train.optimisers import optimisers
from eclose.train.schedules import rate, schedules

USUAL_RATES = {"sgd": 0.05, "adam": 1e-3, "adamw": 2e-3, "adadelta": 1.0}


def complete(config: Config, task: Task) -> Config:
    """The configuration with nothing left open for ``task``."""
    _check_ranges(config)
    config = _complete_members(config)
    signature = task.signature
    metric = config.task.metric or default_metric(signature)
    loss = config.loss.name or default_loss(signature)
    check_metric(metric, signature)
    check_loss(loss, signature)
    loss_options = losses[loss].complete(config.loss.options, "loss")
    check_augmentation(config.augment.names, signature)
    genotype = backbone_genotype(
        config.backbone.name or default_backbone(signature), config.backbone.options, signature
    )
    options = genotype.choices["options"]
    return replace(
        config,
        task=replace(config.task, metric=metric, kind=signature.kind, axes=signature.axes),
        loss=replace(config.loss, name=loss, options=loss_options),
        backbone=replace(config.backbone, name=genotype.choices["backbone"], options=options),
        train=replace(config.train, batch=config.train.batch or usual_batch(len(task.train))),
    )


def check_networks(config: Config, signature: Signature, start: Genotype | None) -> None:
    """Build what the run will train first, and the baselines, and look at the shape of their outputs."""
    space: Space = spaces[config.space.name].make(config, **config.space.options)
    baselines = [backbone_genotype(name, {}, signature) for name in config.compare.baselines]
    with torch.random.fork_rng([]):
        for genotype in [start or space.start(signature), *baselines]:
            check_output(space_of(genotype, config).build(genotype, signature), signature, label(genotype))


def label(genotype: Genotype) -> str:
    """A short name for tables."""
    backbone = genotype.choices.get("backbone")
    if genotype.space == "backbone" or backbone is None:
        return str(backbone or genotype.space)
    return f"{backbone} ({genotype.space})"


def _complete_members(config: Config) -> Config:
    """Options of the named members, the space's own strategy, the usual learning rate, the actual device."""
    space = spaces[config.space.name]
    strategy = config.strategy.name or vars(space.make)["strategy"]
    optimiser, schedule = config.optimiser, config.schedule
    learning_rate = optimiser.learning_rate or USUAL_RATES[optimisers[optimiser.name].name]
    rate(schedule.name, 0.0, config.train.epochs, schedule.warmup_epochs, schedule.options)  # checks the options
    augment = Augmentation(config.augment.names, config.augment.options)
    threads = config.run.threads or torch.get_num_threads()
    device = choose_device(config.run.device).type if config.run.device == "auto" else config.run.device
    return replace(
        config,
        space=replace(config.space, options=space.complete(config.space.options, "space")),
        strategy=replace(
            config.strategy,
            name=strategy,
            options=strategies[strategy].complete(config.strategy.options, "strategy"),
        ),
        optimiser=replace(
            optimiser,
            learning_rate=learning_rate,
            options=optimisers[optimiser.name].complete(optimiser.options, "optimiser"),
        ),
        schedule=replace(schedule, options=schedules[schedule.name].complete(schedule.options, "schedule")),
        augment=replace(config.augment, options=augment.options),
        run=replace(config.run, device=device, threads=threads),
    )


def _check_ranges(config: Config) -> None:
    choose_device(config.run.device)
    most_threads = 4 * (os.cpu_count() or 1)
    checks: list[tuple[str, Any, Callable[[Any], bool], str]] = [
        ("train.epochs", config.train.epochs, lambda v: v >= 1, "at least 1"),
        (
            "train.batch",
            config.train.batch,
            lambda v: v >= 0,
            "at least 1 (0: chosen by the number of samples)",
        ),
        ("train.evaluate_every", config.train.evaluate_every, lambda v: v >= 1, "at least 1"),
        ("budget.trials", config.budget.trials, lambda v: v >= 0, "at least 0"),
        ("budget.seconds", config.budget.seconds, lambda v: v >= 0, "at least 0"),
        ("run.seed", config.run.seed, lambda v: v >= 0, "at least 0"),
        ("run.threads", config.run.threads, lambda v: 0 <= v <= most_threads, f"between 0 and {most_threads}"),
        ("run.checkpoint_seconds", config.run.checkpoint_seconds, lambda v: v >= 0, "at least 0"),
        ("optimiser.learning_rate", config.optimiser.learning_rate, lambda v: v >= 0, "at least 0"),
        ("optimiser.weight_decay", config.optimiser.weight_decay, lambda v: v >= 0, "at least 0"),
        ("optimiser.clip", config.optimiser.clip, lambda v: v >= 0, "at least 0"),
        ("schedule.warmup_epochs", config.schedule.warmup_epochs, lambda v: v >= 0, "at least 0"),
        ("task.subset", config.task.subset, lambda v: v >= 0, "at least 0"),
        ("task.subset_eval", config.task.subset_eval, lambda v: v >= 0, "at least 0"),
    ]
    for name, value, fits, wanted in checks:
        if not fits(value):
            raise ConfigError(f"{name} is {value}, but must be {wanted}")
    if config.train.graph and (choose_device(config.run.device).type != "cuda" or config.train.precision == "float16"):
        raise ConfigError("train.graph needs a CUDA device and another precision than float16: leave it out")
    for name, value, known in (
        ("train.keep", config.train.keep, ("best", "last")),
        ("train.precision", config.train.precision, tuple(PRECISIONS)),
    ):
        if value not in known:
            raise ConfigError(f"{name} is '{value}'; {nearest(value, known)}")
