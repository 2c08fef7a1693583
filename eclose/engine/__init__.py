"""Strategies and the driver that takes a run to its end."""

from eclose.engine import bilevel, evolution, portfolio, random_search, supernet, train_start  # noqa: F401  (they register their strategies)
from eclose.engine.driver import Driver
from eclose.engine.plan import check_networks, complete
from eclose.engine.saved_networks import build_network, explained, load_network, load_trial_model
from eclose.engine.sizes import sized
from eclose.engine.strategy import Search, Strategy, make_strategy, strategies
from eclose.engine.transfer import carried_over

__all__ = [
    "Driver",
    "Search",
    "Strategy",
    "build_network",
    "carried_over",
    "check_networks",
    "complete",
    "explained",
    "load_network",
    "load_trial_model",
    "make_strategy",
    "sized",
    "strategies",
]
