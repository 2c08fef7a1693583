"""Networks that a run trains beside what it finds, with the same settings."""

from collections.abc import Iterable
from typing import Any

from eclose.backbones import backbones
from eclose.config import Config
from eclose.errors import ConfigError
from eclose.signature import Signature
from eclose.spaces import Genotype, backbone_genotype


def baselines(config: Config, signature: Signature) -> dict[str, Genotype]:
    """By their names in tables.

    The backbone of a search is the network that the search starts from, with the options it has there; beside itself
    it is the default one. Other networks take those of ``compare.options`` that they have.
    """
    names, searched = dict.fromkeys(config.compare.baselines), config.space.name != "backbone"
    found = {}
    for name in names:
        options = (
            config.backbone.options
            if name == config.backbone.name and searched
            else of_these(config.compare.options, [name])
        )
        itself = name == config.backbone.name and not searched
        found[f"{name} (default)" if itself else name] = backbone_genotype(name, options, signature)
    _check_options(config)
    return found


def of_these(options: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Those options that one of the networks has at least."""
    known = {key for name in names if name in backbones for key in backbones[name].options}
    return {key: value for key, value in options.items() if key in known}


def _check_options(config: Config) -> None:
    names = config.compare.baselines
    for key in config.compare.options.keys() - of_these(config.compare.options, names):
        told = ", ".join(names) or "there are none"
        raise ConfigError(f"compare.{key}: none of the baselines ({told}) has an option '{key}'; leave it out")
