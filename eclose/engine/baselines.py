"""Networks that a run trains beside what it finds, with the same settings."""

from collections.abc import Iterable
from typing import Any

from eclose.backbones import backbones
from eclose.config import Config
from eclose.errors import ConfigError
from eclose.signature import Signature
from eclose.spaces import ContinuousSpace, Genotype, SampledSpace, Space, backbone_genotype, make_space


def baselines(config: Config, signature: Signature) -> dict[str, Genotype]:
    """By their names in tables.

    The backbone of a search is the network that the search starts from, with the options it has there; beside itself
    it is the default one. Other networks take those of ``compare.options`` that they have.
    """
    searched, found = config.space.name != "backbone", {}
    for name in dict.fromkeys(config.compare.baselines):
        itself = name == config.backbone.name
        options = config.backbone.options if itself and searched else of_these(config.compare.options, [name])
        told = f"{name} (default)" if itself and not searched else name
        found[told] = backbone_genotype(name, options, signature)
    if config.compare.start is True:
        start = _start(config, signature)
        found[start.label if start.space == "backbone" else f"{start.label} (start)"] = start
    _check_options(config)
    return found


def has_start(space: Space) -> bool:
    """Whether searches of a space begin with a network that can be trained as it is."""
    return isinstance(space, SampledSpace) or (isinstance(space, ContinuousSpace) and space.takes_backbone)


def _start(config: Config, signature: Signature) -> Genotype:
    """The network that a search begins with, with nothing of it searched."""
    space = make_space(config)
    if not space.takes_backbone:
        return space.start(signature)
    return backbone_genotype(config.backbone.name, config.backbone.options, signature)


def of_these(options: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Those options that one of the networks has at least."""
    known = {key for name in names if name in backbones for key in backbones[name].options}
    return {key: value for key, value in options.items() if key in known}


def _check_options(config: Config) -> None:
    names, options = config.compare.baselines, config.compare.options
    if names and (unknown := [key for key in options if key not in of_these(options, names)]):
        key = unknown[0]
        raise ConfigError(f"compare.{key}: no baseline ({', '.join(names)}) has an option '{key}'; leave it out")
