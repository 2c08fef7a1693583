"""Recipes: TOML files with the settings of an experiment, by name.

A recipe may have a ``base``: the recipe whose settings it takes over where it has none of its own.
"""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from eclose.config import read_toml
from eclose.errors import ConfigError
from eclose.registry import nearest

DEFAULT = "default"


def recipe_names() -> list[str]:
    """The recipes that come with the package."""
    return sorted(path.name.removesuffix(".toml") for path in _folder().iterdir() if path.suffix == ".toml")


def read_recipe(name: str) -> dict[str, Any]:
    """The settings of a recipe: a name, or a user's own TOML file."""
    data = _read(name)
    settings = {key: value for key, value in data.items() if key not in ("about", "base")}
    base = data.get("base")
    if base is None:
        return settings
    if base not in recipe_names():
        raise ConfigError(f"unknown recipe {base!r} as the base of '{name}'; {_nearest(str(base))}")
    return _merged(read_recipe(base), settings)


def about_recipe(name: str) -> str:
    """What a recipe says about itself."""
    return str(_read(name).get("about", ""))


def _read(name: str) -> dict[str, Any]:
    if name.endswith(".toml"):
        return read_toml(Path(name))
    if name in recipe_names():
        return read_toml(_folder() / f"{name}.toml")
    raise ConfigError(f"unknown recipe '{name}' (a file must end in .toml); {_nearest(name)}")


def _nearest(name: str) -> str:
    return nearest(name, recipe_names(), "those of `eclose show recipes`")


def _merged(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Tables key by key; of anything else the own value counts."""
    found = dict(base)
    for key, value in own.items():
        below = found.get(key)
        found[key] = _merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return found


def _folder() -> Path:
    return Path(str(resources.files("eclose.recipes")))
