"""From what the user gave to a complete configuration: every default chosen, every name checked."""

import os
from dataclasses import replace

import torch

from eclose.config import BackboneSection, CompareSection, Config
from eclose.engine.baselines import has_start
from eclose.engine.executors.ray_cluster import check_workers
from eclose.engine.plan.stages import complete_final, complete_teacher
from eclose.engine.plan.training import complete_training
from eclose.engine.strategy import Strategy, gives_no_weights, make_strategy, strategies, strategy_class
from eclose.errors import ConfigError
from eclose.signature import Signature
from eclose.spaces import Space, backbone_genotype, make_space, space_class, spaces
from eclose.tasks import Task
from eclose.tasks.own_data.doubts import targets_of
from eclose.train import choose_device, usual_batch
from eclose.train.device import repeats
from eclose.train.metrics import check_metric, default_metric

_EPOCHS, _STEPS, _MOST = 30, 8000, 500  # epochs if nobody says, steps on a clock, epochs there at most


def complete(config: Config, task: Task, *, given: bool = False) -> Config:
    """The configuration with nothing left open for ``task``.

    ``given``: it trains a network that was found, for which its space has decided on other data.
    """
    signature = task.signature
    config = _with_length(_with_measures(config, task), len(task.train))
    config = complete_training(config, signature)
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
    decided = {} if given else space.effective(signature)
    chosen = {"space.options": decided, "strategy.options": strategy.effective(config)}
    config = config.with_values({name: options for name, options in chosen.items() if options})
    config = replace(config, compare=_complete_compare(config, space, strategy))
    final = complete_final(config, space, strategy, signature)
    return replace(config, final=final, teacher=complete_teacher(config, signature))


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


def _complete_members(config: Config) -> Config:
    """Options of space and strategy, the space's own strategy, the actual device."""
    space, strategy = config.space.name, config.strategy.name or space_class(config.space.name).strategy
    threads = config.run.threads or torch.get_num_threads()
    device = choose_device(config.run.device).type if config.run.device == "auto" else config.run.device
    made = strategy_class(strategy)
    trials, minutes = config.budget.trials or made.trials, config.budget.minutes or made.minutes
    _check_options(config, space, strategy)
    own = space_class(space).strategy_options if strategy == space_class(space).strategy else {}
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
            ways = [f"--space {name}" for name in spaces if space_class(name).strategy in others]
            way = ways[0] if ways else f"--space xd --strategy {others[0]}"
            if space_class(space).strategy in others:
                way = f"--strategy {space_class(space).strategy}"
            elif all(strategy_class(each).supernets for each in (others[0], space_class(space).strategy)):
                way = f"--strategy {others[0]}"
            raise ConfigError(f"strategy: '{strategy}' has no option '{key}', but '{others[0]}' has: say {way}")


def _with_length(config: Config, samples: int) -> Config:
    """How much is learned at a time, and for how long at most.

    On a clock the number of epochs is an upper limit only: so many that the steps are enough for any network.
    """
    train = config.train
    batch = train.batch or usual_batch(samples) if samples > 1 else 1
    strategy = config.strategy.name or space_class(config.space.name).strategy
    timed = config.budget.minutes or strategy_class(strategy).minutes
    enough = min(max(_EPOCHS, _STEPS * batch // samples), _MOST) if timed else _EPOCHS
    return replace(config, train=replace(train, batch=batch, epochs=train.epochs or enough))
