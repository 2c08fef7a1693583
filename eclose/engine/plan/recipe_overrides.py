"""What of a recipe goes where a user asks for other members than it names."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from eclose.config import BackboneSection, Config, SpaceSection, StrategySection
from eclose.engine.baselines import of_these
from eclose.engine.strategy import strategies, strategy_class
from eclose.spaces import space_class, spaces


def without_replaced(recipe: Config, changes: Mapping[str, Any]) -> Config:
    """A recipe without what belongs to members that are to be replaced: their options, and the old space's strategy."""
    if isinstance(names := changes.get("compare.baselines"), (tuple, list)):
        recipe = replace(recipe, compare=replace(recipe.compare, options=of_these(recipe.compare.options, names)))
    backbone, space, strategy = (changes.get(f"{name}.name", "") for name in ("backbone", "space", "strategy"))
    if backbone not in ("", recipe.backbone.name):
        recipe = replace(recipe, backbone=BackboneSection())
    before = recipe.strategy.name or space_class(recipe.space.name).strategy
    if space not in ("", recipe.space.name):
        recipe = replace(recipe, space=SpaceSection(space), strategy=replace(recipe.strategy, name=""))
    after = strategy or recipe.strategy.name or space_class(recipe.space.name).strategy
    if after != before:
        recipe = replace(recipe, strategy=StrategySection())
    if after in strategies and not strategy_class(after).supernets:
        recipe = replace(recipe, space=without_supernets(recipe.space))
    return recipe


def without_supernets(section: SpaceSection) -> SpaceSection:
    """A space without the options that only supernets have a use for."""
    unused = space_class(section.name).of_supernets if section.name in spaces else ()
    return replace(section, options={key: value for key, value in section.options.items() if key not in unused})
