"""Strategies and the driver that takes a run to its end."""

from eclose.search import evolution, random_search, supernet, train_start  # noqa: F401  (they register their strategies)
from eclose.search.driver import Driver
from eclose.search.plan import check_networks, complete
from eclose.search.result import load_network, load_trial_model
from eclose.search.strategy import Search, Strategy, strategies

__all__ = [
    "Driver",
    "Search",
    "Strategy",
    "check_networks",
    "complete",
    "load_network",
    "load_trial_model",
    "strategies",
]
