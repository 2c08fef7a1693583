"""What a step of K-operations costs by depth, beside LeNet, and a step of each strategy; on CIFAR-10's shape."""

import statistics
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.runner import Entry, by_round
from benchmarks.training_loop import images
from eclose.config import Config
from eclose.engine import Search, complete, make_strategy
from eclose.events import Events
from eclose.spaces import Genotype
from eclose.tasks import Task
from eclose.train import Surroundings, World
from eclose.train.data import Feed
from eclose.train.device import torch_settings

BATCH, SAMPLES, ROUNDS = 128, 1024, 15
LENET = {"backbone.name": "lenet", "backbone.pool": "average"}
Steps = dict[str, Callable[[], torch.Tensor]]

STRATEGIES: dict[str, dict[str, Any]] = {
    "supernet": {"strategy.name": "supernet"},
    "bilevel, first order": {"strategy.name": "bilevel"},
    "bilevel, second order": {"strategy.name": "bilevel", "strategy.order": 2},
}
OPERATIONS: dict[str, dict[str, Any]] = {
    "LeNet": {"space.name": "backbone"},
    "warm start, depth 1": {"space.name": "chrysalis", "space.begin": "warm"},
    "from scratch, depth 1": {"space.name": "chrysalis", "space.depth": 1},
    "from scratch, depth 9": {"space.name": "chrysalis"},
    "found, depth 9, frozen": {"space.name": "chrysalis", "strategy.name": "train"},
}
DEPTH_GOAL, LENET_GOAL, FIRST_GOAL, SECOND_GOAL = 1.5, 3.0, 2.1, 5.0


def step_of(
    task: Task, device: torch.device, start: Genotype | None = None, **settings: Any
) -> Callable[[], torch.Tensor]:
    """One training step of a search from ``start``, with the reading of its batch."""
    given = {"train.batch": BATCH, "run.device": device.type}
    config = complete(Config().with_values({**given, **settings}), task)
    search = Search.of(config, task, start)
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
        step = step_of(task, device, **{**LENET, "space.name": "chrysalis", **settings})
        losses = [float(step()) for _ in range(12)]
        assert losses[-1] < losses[0], f"{name}: the loss went from {losses[0]} to {losses[-1]}"
    return "twelve steps of every strategy lower the loss"


def measure(device: torch.device) -> list[str]:
    """Rounds of one step each, variants in turn; ratios are taken within a round."""
    task, what = images(SAMPLES)
    lines = [f"LeNet, {what}, batch {BATCH}; median of rounds, variants in turn; ratios are taken within a round."]
    modes = {"eager": "off", "CUDA graph": "on"} if device.type == "cuda" else {"eager": "off"}
    for mode, graph in modes.items():
        given = {**LENET, "train.graph": graph}
        steps = {name: step_of(task, device, **settings, **given) for name, settings in OPERATIONS.items()}
        lines += _operations(mode, steps, device)
        for space in ("chrysalis", "xd", "discrete"):
            named = {"space.name": space, **given}
            lines += _strategies(
                mode, space, {n: step_of(task, device, **named, **s) for n, s in STRATEGIES.items()}, device
            )
    return lines


def _operations(mode: str, steps: Steps, device: torch.device) -> list[str]:
    seconds = _seconds(steps, device)
    lenet, shallow = seconds["LeNet"], seconds["from scratch, depth 1"]
    deep = seconds["from scratch, depth 9"]
    lines = ["", f"## K-operations in LeNet, strategy supernet, {mode}", ""]
    lines += ["| step | ms | times depth 1 | times LeNet |", "|---|---|---|---|"]
    for name, values in seconds.items():
        ratios = f"{_ratio(values, shallow):.2f} | {_ratio(values, lenet):.2f}"
        lines.append(f"| {name} | {1000 * statistics.median(values):.2f} | {ratios} |")
    goals = f"depth 9 by depth 1 {_verdict(_ratio(deep, shallow), DEPTH_GOAL)}"
    if device.type == "cuda":
        goals += f", by LeNet {_verdict(_ratio(deep, lenet), LENET_GOAL)}"
    return [*lines, "", f"Goals: {goals}."]


def _strategies(mode: str, space: str, steps: Steps, device: torch.device) -> list[str]:
    seconds = _seconds(steps, device)
    supernet, first, second = seconds.values()
    lines = ["", f"## Strategies, space {space}, {mode}", "", "| step | ms | times supernet |", "|---|---|---|"]
    for name, values in seconds.items():
        lines.append(f"| {name} | {1000 * statistics.median(values):.2f} | {_ratio(values, supernet):.2f} |")
    verdicts = _verdict(_ratio(first, supernet), FIRST_GOAL), _verdict(_ratio(second, supernet), SECOND_GOAL)
    return [*lines, "", f"Goals: first order {verdicts[0]}, second order {verdicts[1]}."]


def _seconds(steps: Steps, device: torch.device) -> dict[str, list[float]]:
    return by_round({name: silent(step) for name, step in steps.items()}, device, ROUNDS, warm_up=6)


def _ratio(ours: list[float], theirs: list[float]) -> float:
    return statistics.median(one / other for one, other in zip(ours, theirs, strict=True))


def _verdict(ratio: float, goal: float) -> str:
    return f"{ratio:.2f} (at most {goal}: {'met' if ratio <= goal else 'missed'})"


def silent(step: Callable[[], torch.Tensor]) -> Callable[[], None]:
    """A step that says nothing."""

    def run() -> None:
        step()

    return run


ENTRY = Entry("chrysalis", "Steps of K-operations by depth, and of strategies", check, measure)
