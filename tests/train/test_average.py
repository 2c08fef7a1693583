"""Averaged weights: a hand-written average, what validation sees, what is kept."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from eclose.config import Config
from eclose.engine.plan import complete
from eclose.errors import ConfigError
from eclose.events import Events
from eclose.tasks import Reading, Task, task_from_arrays
from eclose.train import Batches, GradientStep, Objective, Surroundings, Training, World, evaluate
from eclose.train.average import Average
from eclose.train.optimisers import make_optimiser, parameter_groups

CPU = torch.device("cpu")


@pytest.fixture
def task() -> Task:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 1, 4)).astype(np.float32)
    return task_from_arrays("toy", {"x": x, "y": x.sum((1, 2)) ** 2}, Reading())


class Recorded(nn.Module):
    """A network that remembers what the steps made of it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
        self.seen: list[dict[str, Tensor]] = []

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layers(x)
        return result

    def after_step(self) -> None:
        self.seen.append({name: value.clone() for name, value in self.state_dict().items()})


def trained(task: Task, **train: Any) -> Training:
    changes = {"train.epochs": 5, "train.batch": 8, **{f"train.{key}": value for key, value in train.items()}}
    config = complete(Config().with_values(changes), task)
    model = Recorded()
    optimiser = make_optimiser("sgd", parameter_groups(model, 0.05, 0.0, decay_vectors=False), {})
    around = Surroundings(0, 0, CPU, World(), Events())
    step = GradientStep(model, Objective.of(task, config.loss, CPU), [optimiser], 0.0, "float32", CPU, World())
    training = Training(model, task, step, config, around)
    training.run()
    return training


def by_hand(seen: list[dict[str, Tensor]], share: float) -> dict[str, Tensor]:
    average = {name: value.double() for name, value in seen[0].items()}
    for step, state in enumerate(seen):
        weight = 1 / (1 + share * step)
        average = {name: value + weight * (state[name] - value) for name, value in average.items()}
    return average


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_equals_a_hand_written_average(task: Task, share: float) -> None:
    training = trained(task, ema=share, keep="last")
    wanted, kept = by_hand(training.model.seen, share), training.model.state_dict()
    for name in kept:
        if not name.endswith("num_batches_tracked"):
            torch.testing.assert_close(kept[name].double(), wanted[name], rtol=1e-4, atol=1e-5)
    last = training.model.seen[-1]
    assert not torch.equal(last["layers.1.weight"], kept["layers.1.weight"])
    assert not torch.equal(last["layers.2.running_var"], kept["layers.2.running_var"])


def test_the_average_does_not_touch_the_training(task: Task) -> None:
    plain, averaged = trained(task), trained(task, ema=0.1)
    for ours, theirs in zip(plain.model.seen, averaged.model.seen, strict=True):
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_validation_sees_the_average_and_its_best_weights_are_kept(task: Task) -> None:
    training = trained(task, ema=0.2)
    model, history = training.model, training.progress.history
    values = []
    steps = training.steps
    data = Batches(task.val, task.signature, CPU)
    for epoch in range(1, 6):
        state = by_hand(model.seen[: epoch * steps], 0.2)
        other = Recorded()
        other.load_state_dict({name: value.to(model.state_dict()[name].dtype) for name, value in state.items()})
        values.append(evaluate(other, data, training.metric, World()))
    np.testing.assert_allclose([entry["valid"] for entry in history], values, rtol=1e-4)
    assert evaluate(model, data, training.metric, World()) == training.progress.best_value


def test_shared_and_frozen_parameters() -> None:
    one, other = nn.Linear(3, 3), nn.Linear(3, 3)
    other.weight = one.weight
    one.bias.requires_grad_(False)
    model = nn.Sequential(one, other, nn.BatchNorm1d(3, track_running_stats=False))
    average = Average(model, 0.5)
    assert len(average.tensors) == 5  # a weight, two biases, scale and shift of the norm
    before = one.bias.clone()
    with torch.no_grad():
        one.weight.add_(1.0)
    average.update(3)
    version = one.weight._version
    with average.shown():
        torch.testing.assert_close(one.weight, average.tensors[0])
        assert one.weight._version > version  # caches look at it
        assert torch.equal(one.bias, before)
        assert other.weight is one.weight
    assert not torch.equal(one.weight, average.tensors[0])


def test_a_decay_is_refused(task: Task) -> None:
    with pytest.raises(ConfigError, match=r"train.ema is 0.999, but must be at most 0.5"):
        complete(Config().with_values({"train.ema": 0.999}), task)
