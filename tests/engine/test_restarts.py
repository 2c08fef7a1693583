"""Restarts of ``supernet``: rate and weights begin anew, the architecture goes on.

That a run which was killed at a restart ends with the same bits is in ``tests/contracts/test_strategy.py``.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from eclose.engine import make_strategy
from eclose.engine.strategy import Prepared
from eclose.engine.supernet import _begin_anew
from eclose.errors import ConfigError, Interrupted
from eclose.spaces.architecture import named_architecture
from eclose.train import Training
from tests.contracts.cases import AROUND, CONTINUOUS, Case, rows


def prepared(space: str, **settings: Any) -> Prepared:
    case = CONTINUOUS[space]
    given = {**case.settings, "strategy.restarts": 2, **settings}
    search = Case(case.data, given).search(space=space, strategy="supernet")
    torch.manual_seed(0)
    ready = make_strategy(search.config).prepare(search, search.start, AROUND, "search")
    ready.model.train()
    return ready


def taken(ready: Prepared, epochs: float) -> dict[str, torch.Tensor]:
    """All values after a step."""
    x, y = ready.task.train.take(torch.arange(8))
    ready.step.set_rate(1.0, epochs)
    ready.step(x, y, 8)
    return {name: parameter.detach().clone() for name, parameter in ready.model.named_parameters()}


@pytest.mark.parametrize(
    ("space", "optimiser"),
    [("xd", "relative_sgd"), ("discrete", "adam"), ("chrysalis", "sgd"), ("dnarch", "adamw"), ("nos", "relative_adam")],
)
def test_weights_begin_anew_and_the_architecture_goes_on(space: str, optimiser: str) -> None:
    ready = prepared(space, **{"strategy.optimiser": optimiser})
    own = named_architecture(ready.model)
    start = {name: parameter.detach().clone() for name, parameter in ready.model.named_parameters()}
    before = taken(ready, 0.9)
    ready.step.set_rate(1.0, 1.0)
    now = {name: parameter.detach().clone() for name, parameter in ready.model.named_parameters()}
    assert all(torch.equal(now[name], before[name]) for name in own)
    drawn = [name for name in now if name not in own and now[name].unique().numel() > 1]
    assert drawn
    for other in (start, before):
        assert not any(torch.equal(now[name], other[name]) for name in drawn)
    for optimiser_ in ready.step.optimisers:
        assert optimiser_.state
        assert not any(value.any() for state in optimiser_.state.values() for value in state.values())
    again = prepared(space)
    again.step.set_rate(1.0, 1.0)
    same = dict(again.model.named_parameters())
    assert all(torch.equal(now[name], same[name]) for name in now if name not in own), "they follow from seed and phase"
    after = taken(ready, 1.5)
    assert not all(torch.equal(after[name], start[name]) for name in own), "one restart only"


def test_what_the_architecture_was_goes_on() -> None:
    """How its weights moved, and why it stopped, are of all phases."""
    ready = prepared("nos", **{"space.skips": 1})
    taken(ready, 0.0)
    remembered = {name: value for name, value in ready.model.named_buffers() if "history" in name or "skip" in name}
    remembered["network.skip_limit.few"].fill_(1)
    before = {name: value.clone() for name, value in remembered.items()}
    _begin_anew(ready.model, prepared("nos", **{"space.skips": 1}).model)
    assert before["network.history.means"][0].any()
    assert all(torch.equal(value, before[name]) for name, value in remembered.items())


def test_running_statistics_begin_anew() -> None:
    models = [nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)) for _ in range(2)]
    models[0](torch.randn(4, 2))
    _begin_anew(*models)
    for ours, theirs in zip(models[0].state_dict().values(), models[1].state_dict().values(), strict=True):
        assert torch.equal(ours, theirs)


def test_weights_that_do_not_fit_any_more_are_refused() -> None:
    with pytest.raises(ConfigError, match="'weight' has changed its shape, so it cannot begin anew: leave strategy"):
        _begin_anew(nn.Linear(2, 3), nn.Linear(2, 4))


def test_the_schedule_begins_anew(tmp_path: Path) -> None:
    settings = {"strategy.restarts": 2, "train.epochs": 4, "schedule.name": "linear"}
    result = CONTINUOUS["discrete"].run(tmp_path / "run", "discrete", settings=settings)
    (row,) = rows(result.run)
    steps = 5  # of an epoch
    rates = [entry["rate"] for entry in row.history]
    assert rates == pytest.approx([1 - (steps - 1) / (2 * steps), 1 - (2 * steps - 1) / (2 * steps)] * 2)


def test_averaged_weights_are_those_of_the_phase() -> None:
    ready = prepared("discrete", **{"train.ema": 0.5})
    steps = iter(range(1, 100))
    around = replace(AROUND, stop=lambda: next(steps) == training.steps + 1)
    training = Training(ready.model, ready.task, ready.step, ready.config, around, ready.phases)
    with pytest.raises(Interrupted):
        training.run()
    assert training.average is not None
    for average, now in zip(training.average.tensors, training.average.moving, strict=True):
        assert torch.equal(average, now)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            {"strategy.restarts": 0},
            "restarts is 0, but must be at least 1 and at most 2, the number of epochs: leave it out",
        ),
        (
            {"strategy.restarts": 3},
            "restarts is 3, but must be at least 1 and at most 2, the number of epochs: raise --epochs",
        ),
        ({"budget.minutes": 1.0}, "strategy.restarts divides the epochs, not a time: give --epochs and no --minutes"),
    ],
    ids=str,
)
def test_what_restarts_do_not_go_with(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as error:
        prepared("discrete", **settings)
    assert "\n" not in str(error.value)
