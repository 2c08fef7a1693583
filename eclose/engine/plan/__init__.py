"""From what the user gave to what is done: defaults by the data, names and ranges checked, networks tried."""

from eclose.engine.plan.completion import complete
from eclose.engine.plan.networks import check_networks
from eclose.engine.plan.recipe_overrides import without_replaced, without_supernets
from eclose.engine.plan.training import USUAL_RATES

__all__ = ["USUAL_RATES", "check_networks", "complete", "without_replaced", "without_supernets"]
