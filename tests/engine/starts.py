"""The networks that a run trains first, checked as `search` checks them."""

from eclose.config import Config
from eclose.engine import Search, check_networks
from eclose.tasks import Task


def check_start(config: Config, task: Task) -> None:
    check_networks(Search.of(config, task))
