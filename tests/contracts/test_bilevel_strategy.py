"""A toy: a bilevel strategy of first order with a final stage, in this file alone.

Half of the training samples move the weights, the other half the architecture, by a step that reads a feed of its own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import eclose
from eclose.config import Config
from eclose.engine import Search, Strategy, strategies
from eclose.engine.strategy import Prepared, Role, continuous, derived, plain_training, weight_groups
from eclose.errors import ConfigError
from eclose.runs import Trial
from eclose.spaces import ContinuousSpace, Genotype, Space, assemble
from eclose.spaces.architecture import named_architecture
from eclose.tasks import Task
from eclose.train import GradientStep, Objective, Surroundings, generator_for, share_batch_norm
from eclose.train.data import Feed
from eclose.train.optimisers import make_optimiser
from tests.contracts.cases import AROUND, Case, assert_same_run, images, registered, rows, signals
from tests.contracts.test_masked_space import masked_spaces  # noqa: F401  (a fixture)
from tests.contracts.test_strategy import StrategyContract


class Bilevel(Strategy):
    """Weights on one half of the training samples, the architecture on the other, in turn."""

    def __init__(self, *, learning_rate: float = 0.05) -> None:
        self.learning_rate = learning_rate

    def check(self, config: Config, space: Space) -> None:
        if not isinstance(space, ContinuousSpace):
            raise ConfigError("the strategy 'bilevel' moves an architecture: choose a space that has one, such as xd")

    def ask(self, search: Search, trials: Sequence[Trial], generator: torch.Generator) -> Genotype | None:
        return search.start if len(trials) < max(1, search.config.budget.trials) else None

    def prepare(self, search: Search, genotype: Genotype, around: Surroundings, role: Role) -> Prepared:
        if role != "search":
            return plain_training(search, genotype, around)
        config, (first, second) = search.config, halves(search.task)
        network = continuous(search).supernet(genotype, first.signature)
        model = share_batch_norm(assemble(network, first.signature, first.scale), around.world).to(around.device)
        objective = Objective.of(first, config.loss, around.device)

        def step(groups: list[dict[str, Any]]) -> GradientStep:
            optimiser = make_optimiser(config.optimiser.name, groups, config.optimiser.options)
            shared = (config.optimiser.clip, config.train.precision, around.device, around.world)
            return GradientStep(model, objective, [optimiser], *shared)

        own = named_architecture(model)
        architecture = {"params": list(own.values()), "lr": self.learning_rate, "weight_decay": 0.0, "scheduled": False}
        feed = Feed.of(second, config, around.seed, around.device, around.world, name="architecture")
        steps = step(without(weight_groups(model, config.optimiser), own)), step([architecture])
        return Prepared(model, BilevelStep(*steps, feed), first, config)

    def found(self, search: Search, genotype: Genotype, model: nn.Module) -> tuple[Genotype, nn.Module | None]:
        return derived(search, genotype, model)


class BilevelStep:
    """The architecture moves on a batch of its own, then the weights on the batch of the loop."""

    def __init__(self, weights: GradientStep, architecture: GradientStep, feed: Feed) -> None:
        self.steps, self.feed, self.taken = (weights, architecture), feed, 0

    def __call__(self, x: Tensor, y: Tensor, batch: int) -> Tensor:
        weights, architecture = self.steps
        architecture(*self.feed.batch(self.taken))
        self.taken += 1
        return weights(x, y, batch)

    def set_rate(self, factor: float, epochs: float) -> None:
        for step in self.steps:
            step.set_rate(factor, epochs)

    def state_dict(self) -> dict[str, Any]:
        return {"steps": [step.state_dict() for step in self.steps], "taken": self.taken}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for step, saved in zip(self.steps, state["steps"], strict=True):
            step.load_state_dict(saved)
        self.taken = state["taken"]


def halves(task: Task) -> tuple[Task, Task]:
    """The task on either half of its training samples, the same halves in every run."""
    order = torch.randperm(len(task.train), generator=generator_for("halves"))
    half = len(order) // 2
    return tuple(replace(task, train=task.train.select(part)) for part in (order[:half], order[half : 2 * half]))


def without(groups: list[dict[str, Any]], own: dict[str, nn.Parameter]) -> list[dict[str, Any]]:
    """Groups of parameters without those of the architecture."""
    ids = {id(parameter) for parameter in own.values()}
    kept = [{**group, "params": [p for p in group["params"] if id(p) not in ids]} for group in groups]
    return [group for group in kept if group["params"]]


@pytest.fixture(scope="module")
def bilevel() -> Iterator[None]:
    with registered(strategies, bilevel=Bilevel):
        yield


LENET = {"backbone.name": "lenet", "backbone.widths": [2, 3], "backbone.hidden": [8]}
FINAL = {"final.networks": 1, "final.train.epochs": 3}
REFUSED = ("backbone", "the strategy 'bilevel' moves an architecture: choose a space that has one, such as xd")


@pytest.mark.usefixtures("bilevel")
class TestBilevel(StrategyContract):
    name = "bilevel"
    space = "discrete"
    case = Case(images, LENET)
    refused = REFUSED

    def test_it_is_a_hand_written_loop(self) -> None:
        """Of plain SGD; the rate of the architecture is not that of the schedule."""
        sgd = {"optimiser.name": "sgd", "optimiser.weight_decay": 0.0, "optimiser.momentum": 0.0}
        search = Case(images, {**LENET, **sgd}).search(space="discrete", strategy="bilevel")
        halved = halves(search.task)
        models, feeds = [], []
        for _ in range(2):
            torch.manual_seed(0)
            models.append(Bilevel().prepare(search, search.start, AROUND, "search"))
        ours, theirs = models[0], models[1].model.train()
        feeds = [
            Feed.of(task, search.config, AROUND.seed, AROUND.device, AROUND.world, name)
            for task, name in zip(halved, ("", "architecture"), strict=True)
        ]
        own = named_architecture(theirs)
        for number in range(3):
            ours.model.train()
            ours.step.set_rate(0.5, 0.0)
            ours.step(*feeds[0].batch(number))
            for feed, rate, mine in ((feeds[1], 0.05, True), (feeds[0], 0.5 * 0.03, False)):
                x, y, _ = feed.batch(number)
                loss = nn.functional.cross_entropy(theirs(x), y)
                moved = [p for name, p in theirs.named_parameters() if (name in own) == mine]
                with torch.no_grad():
                    for parameter, slope in zip(moved, torch.autograd.grad(loss, moved), strict=True):
                        parameter.sub_(rate * slope)
        for name, value in theirs.state_dict().items():
            torch.testing.assert_close(ours.model.state_dict()[name], value)
        assert not set(halved[0].train.rows.tolist()) & set(halved[1].train.rows.tolist())
        assert len(halved[0].train) == len(halved[1].train)


@pytest.mark.usefixtures("masked_spaces", "bilevel")
@pytest.mark.parametrize(
    ("space", "case"),
    [("discrete", Case(images, LENET)), ("masked", Case(signals, {})), ("anew", Case(signals, {}))],
    ids=str,
)
def test_a_search_with_a_final_stage(space: str, case: Case, tmp_path: Path) -> None:
    given = {"strategy": "bilevel", "settings": {**FINAL, "strategy.learning_rate": 0.1}}
    whole = case.run(tmp_path / "whole", space, **given)
    (search,), finals = rows(whole.run), rows(whole.run, "final")  # a second one, if the first was worse than the trial
    assert (search.epochs, {final.epochs for final in finals}) == (2, {3})
    assert {search.hash} == {final.hash for final in finals} == {whole.genotype.hash}
    case.interrupted(tmp_path / "run", space, (0, 1), (1, 2), **given)
    assert_same_run(tmp_path / "run", whole.run)
    x = case.data()["x"][:4]
    assert eclose.predict(whole.run, x)["label"].shape == (4,)
    assert torch.equal(eclose.load(tmp_path / "run")(torch.from_numpy(x)), whole.model(torch.from_numpy(x)))
    assert (whole.run / "report.html").exists()
    assert (whole.run / "result.json").exists()


@pytest.mark.usefixtures("masked_spaces", "bilevel")
def test_on_the_toy_space_it_finds_a_smaller_network(tmp_path: Path) -> None:
    settings = {"strategy.learning_rate": 0.1, "train.keep": "last"}
    result = Case(signals, {}).run(tmp_path / "run", "masked", strategy="bilevel", settings=settings)
    (row,) = rows(result.run)
    width = row.genotype["width"]
    assert width < 12
    assert row.parameters == 16 * width + width + width * 3 + 3
