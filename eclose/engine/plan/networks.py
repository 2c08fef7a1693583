"""Networks are tried before a run begins: outputs, gradients, options that nothing would use."""

import torch

from eclose.backbones import check_output
from eclose.backbones.factory import check_training
from eclose.config import Config
from eclose.engine.baselines import baselines
from eclose.engine.strategy import Search, strategy_class
from eclose.engine.teaching import check_teacher
from eclose.errors import ConfigError
from eclose.spaces import ContinuousSpace, space_class, spaces


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
                f"'{strategy}' trains none: leave it out, or say --strategy {space_class(section.name).strategy}"
            )


def _smallest_batch(config: Config) -> int:
    """Of all trainings of a run."""
    stages = (options.get("train", {}) for options in (config.final.options, config.teacher.options))
    return min([config.train.batch, *(stage["batch"] for stage in stages if "batch" in stage)])
