"""What a step of each strategy costs, and what the depth of K-operations costs: steps of LeNet on CIFAR-10's shape."""

import statistics
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.runner import Entry, by_round
from benchmarks.training_loop import images
from eclose.config import Config
from eclose.engine import Search, complete, make_strategy
from eclose.events import Events
from eclose.tasks import Task
from eclose.train import Surroundings, World
from eclose.train.data import Feed
from eclose.train.device import torch_settings

BATCH, SAMPLES = 128, 1024
STRATEGIES: dict[str, dict[str, Any]] = {
    "supernet": {"strategy.name": "supernet"},
    "bilevel, first order": {"strategy.name": "bilevel"},
    "bilevel, second order": {"strategy.name": "bilevel", "strategy.order": 2},
}
DEPTHS: dict[str, dict[str, Any]] = {
    "depth 1": {"space.depth": 1},
    "depth 9": {"space.depth": 9},
}


def step_of(task: Task, device: torch.device, **settings: Any) -> Callable[[], torch.Tensor]:
    """One training step of a search, with the reading of its batch."""
    given = {"backbone.name": "lenet", "train.batch": BATCH, "run.device": device.type, **settings}
    config = complete(Config().with_values(given), task)
    search = Search.of(config, task)
    around = Surroundings(0, 0, device, World(), Events())
    torch.manual_seed(0)
    ready = make_strategy(config).prepare(search, search.start, around, "search")
    ready.model.train()
    feed = Feed.of(ready.task, config, 0, device, World())
    taken = iter(range(10**9))

    def step() -> torch.Tensor:
        with torch_settings(config.run, config.train.precision):
            ready.step.set_rate(1.0, 0.0)
            return ready.step(*feed.batch(next(taken)))

    return step


def check(device: torch.device) -> str:
    """Every step lowers the loss on a handful of samples."""
    task, _ = images(2 * BATCH)
    for name, settings in STRATEGIES.items():
        step = step_of(task, device, **{"space.name": "chrysalis", **settings})
        losses = [float(step()) for _ in range(12)]
        assert losses[-1] < losses[0], f"{name}: the loss went from {losses[0]} to {losses[-1]}"
    return "twelve steps of every strategy lower the loss"


def measure(device: torch.device) -> list[str]:
    """Rounds of one step each, variants in turn; ratios are taken within a round."""
    task, what = images(SAMPLES)
    lines = [f"LeNet, {what}, batch {BATCH}; median of rounds, variants in turn; ratios are taken within a round."]
    for space in ("xd", "discrete", "chrysalis"):
        steps = {name: step_of(task, device, **{"space.name": space, **s}) for name, s in STRATEGIES.items()}
        lines += _table(f"Strategies, space {space}", steps, device)
    depths = {name: step_of(task, device, **{"space.name": "chrysalis", **s}) for name, s in DEPTHS.items()}
    plain = {"lenet": step_of(task, device, **{"space.name": "backbone"})}
    return lines + _table("K-operations from scratch, strategy supernet", {**depths, **plain}, device)


def _table(title: str, steps: dict[str, Callable[[], torch.Tensor]], device: torch.device) -> list[str]:
    seconds = by_round({name: _silent(step) for name, step in steps.items()}, device, 9, warm_up=5)
    first = next(iter(seconds.values()))
    lines = ["", f"## {title}", "", "| step | ms | ratio |", "|---|---|---|"]
    for name, values in seconds.items():
        ratio = statistics.median(one / other for one, other in zip(values, first, strict=True))
        lines.append(f"| {name} | {1000 * statistics.median(values):.1f} | {ratio:.2f} |")
    return lines


def _silent(step: Callable[[], torch.Tensor]) -> Callable[[], None]:
    def run() -> None:
        step()

    return run


ENTRY = Entry("search-steps", "Steps of strategies, and of K-operations by depth", check, measure)
