"""The architecture has an optimiser of its own: step size, momentum, decay, the backbone's schedule, a warm-up."""

from typing import Any

import numpy as np
import pytest
import torch

from eclose.config import Config
from eclose.engine import Search, complete, strategies
from eclose.events import Events
from eclose.spaces import spaces
from eclose.spaces.architecture import named_architecture
from eclose.tasks import Reading, task_from_arrays
from eclose.train import Surroundings, World


def prepared(space: str, **options: Any) -> Any:
    rng = np.random.default_rng(0)
    task = task_from_arrays("toy", {"x": rng.normal(size=(40, 2, 16)), "y": np.arange(40) % 3}, Reading())
    given = {"space.name": space, "optimiser.weight_decay": 0.1, "optimiser.learning_rate": 0.5}
    config = complete(Config().with_values({**given, **{f"strategy.{k}": v for k, v in options.items()}}), task)
    search = Search(made := spaces[space].make(config), task, config, made.start(task.signature))
    around = Surroundings(0, 0, torch.device("cpu"), World(), Events())
    return strategies["supernet"].make(**config.strategy.options).prepare(search, search.start, around, "search")


@pytest.mark.parametrize("space", ["xd", "discrete"])
@pytest.mark.parametrize("name", ["sgd", "relative_sgd", "relative_adam", "adam"])
def test_two_optimisers(space: str, name: str) -> None:
    ready = prepared(space, optimiser=name, learning_rate=0.01, momentum=0.5, weight_decay=0.02)
    weights, own = ready.step.step.optimisers
    assert type(own).__name__.lower() == name.replace("_", "")
    (group,) = own.param_groups
    assert group["weight_decay"] == 0.02
    assert group.get("momentum", group.get("betas", (None,))[0]) == 0.5
    moved = {id(parameter) for parameter in group["params"]}
    assert moved == {id(parameter) for parameter in named_architecture(ready.model).values()}
    others = {id(parameter) for each in weights.param_groups for parameter in each["params"]}
    assert not moved & others
    assert moved | others == {id(parameter) for parameter in ready.model.parameters()}
    assert {each["weight_decay"] for each in weights.param_groups} == {0.1, 0.0}


@pytest.mark.parametrize(("name", "rate", "decay"), [("relative_sgd", 0.005, 0.005), ("adam", 0.001, 0.0)])
def test_a_rate_and_a_decay_that_are_left_open_are_those_of_the_optimiser(name: str, rate: float, decay: float) -> None:
    ready = prepared("xd", optimiser=name)
    (group,) = ready.step.step.optimisers[1].param_groups
    assert (group["lr"], group["weight_decay"]) == (rate, decay)
    assert ready.config.strategy.options["learning_rate"] == rate
    assert ready.config.strategy.options["weight_decay"] == decay


@pytest.mark.parametrize("space", ["xd", "discrete"])
def test_schedule_and_warm_up(space: str) -> None:
    ready = prepared(space, learning_rate=0.01, warmup_epochs=2.0)
    own = named_architecture(ready.model).values()
    for epochs, free in ((0.0, False), (1.9, False), (2.0, True)):
        ready.step.set_rate(0.2, epochs)
        assert all(parameter.requires_grad is free for parameter in own)
    weights, architectural = ready.step.step.optimisers
    assert architectural.param_groups[0]["lr"] == pytest.approx(0.002)
    assert [group["lr"] for group in weights.param_groups] == [pytest.approx(0.1)] * 2
