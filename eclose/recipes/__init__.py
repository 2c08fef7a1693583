"""Recipes: TOML files with the settings of an experiment, by name."""

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
    if name.endswith(".toml"):
        data = read_toml(Path(name))
    elif name in recipe_names():
        data = read_toml(_folder() / f"{name}.toml")
    else:
        raise ConfigError(f"unknown recipe '{name}' (a file must end in .toml); {nearest(name, recipe_names())}")
    return {key: value for key, value in data.items() if key != "about"}


def about_recipe(name: str) -> str:
    """What a recipe says about itself."""
    return str(read_toml(_folder() / f"{name}.toml").get("about", ""))


def _folder() -> Path:
    return Path(str(resources.files("eclose.recipes")))
