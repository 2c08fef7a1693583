"""What one training needs: the usual learning rate and what keeps it safe, the options of every named member."""

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from eclose.config import Config
from eclose.engine.plan.ranges import check_ranges
from eclose.errors import ConfigError
from eclose.signature import Signature
from eclose.train import choose_device
from eclose.train.augment import Augmentation, check_augmentation
from eclose.train.device import usual_precision
from eclose.train.losses import check_loss, default_loss, losses, make_loss
from eclose.train.optimisers import make_optimiser, optimisers
from eclose.train.schedules import rate, schedules

USUAL_RATES = {"sgd": 0.05, "relative_sgd": 0.005, "relative_adam": 0.005, "adam": 1e-3, "adamw": 2e-3, "adadelta": 1.0}
_WIDEST = {"adam": 1024, "adamw": 1024}  # others do not move every weight equally far
_CLIP, _WARMUP = 1.0, 0.1
_EMA, _SMOOTHING = 0.1, 0.1


def complete_training(config: Config, signature: Signature) -> Config:
    """What one training needs: options of the named members, the usual learning rate."""
    check_ranges(config)
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


def _try_loss(name: str, options: dict[str, Any], signature: Signature) -> None:
    """An option out of range shows here, not in a training."""
    values = torch.zeros(1, signature.outputs)
    make_loss(name, options)(values, torch.zeros(1, dtype=torch.long) if signature.labels else values)
