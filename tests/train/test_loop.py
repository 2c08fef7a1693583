"""The loop: same numbers as a hand-written one, limits, what is kept, precision, divergence."""

import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eclose.config import Config, from_dict
from eclose.engine.plan import complete
from eclose.errors import Diverged, Interrupted
from eclose.events import Events
from eclose.tasks import Reading, Task, task_from_arrays
from eclose.train import GradientStep, Objective, Surroundings, Training, World
from eclose.train.data import training_order
from eclose.train.device import Pace
from eclose.train.optimisers import make_optimiser, parameter_groups
from eclose.train.seeds import generator_for

CPU = torch.device("cpu")


@pytest.fixture
def task() -> Task:
    rng = np.random.default_rng(0)
    x = rng.normal(3.0, 2.0, (41, 4, 9)).astype(np.float32)
    y = (x[:, 0].mean(1) > 3).astype(np.int64)
    return task_from_arrays("toy", {"x": x, "y": y}, Reading())


def configured(task: Task, **sections: dict[str, Any]) -> Config:
    sections.setdefault("run", {})["threads"] = 1
    return complete(from_dict(sections), task)


def network(dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 2))


def training(task: Task, config: Config, model: nn.Module, **around: Any) -> Training:
    surroundings = Surroundings(0, 5, CPU, World(), around.pop("events", Events()), **around)
    optimiser = config.optimiser
    groups = parameter_groups(
        model, optimiser.learning_rate, optimiser.weight_decay, decay_vectors=optimiser.decay_vectors
    )
    objective = Objective.of(task, config.loss, CPU)
    optimisers = [make_optimiser(optimiser.name, groups, optimiser.options)]
    step = GradientStep(model, objective, optimisers, optimiser.clip, config.train.precision, CPU, surroundings.world)
    return Training(model, task, step, config, surroundings)


def weights(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_equals_a_hand_written_loop(task: Task) -> None:
    settings = {"name": "sgd", "learning_rate": 0.05, "weight_decay": 0.01, "decay_vectors": True, "clip": 0.7}
    config = configured(
        task,
        optimiser=settings,
        schedule={"name": "cosine", "warmup_epochs": 1.0},
        train={"epochs": 3, "batch": 8, "keep": "last"},
    )
    ours = network()
    progress = training(task, config, ours).run()

    theirs = network()
    optimiser = torch.optim.SGD(theirs.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
    x, y = task.train.all()
    losses = []
    for epoch in range(3):
        order = training_order(len(x), 8, generator_for(5, "order", epoch))
        total = 0.0
        for number, rows in enumerate(order):
            at = epoch + number / len(order)
            rate = at if at < 1 else 0.5 * (1 + np.cos(np.pi * (at - 1) / 2))
            optimiser.param_groups[0]["lr"] = 0.05 * rate
            loss = F.cross_entropy(theirs(x[rows]), y[rows])
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(theirs.parameters(), 0.7)
            optimiser.step()
            total += float(loss.detach()) * len(rows)
        losses.append(total / sum(map(len, order)))
    torch.testing.assert_close(weights(ours), weights(theirs))
    np.testing.assert_allclose([entry["train_loss"] for entry in progress.history], losses, rtol=1e-5)


def test_best_and_last_weights(task: Task) -> None:
    kept = {}
    for keep in ("best", "last"):
        config = configured(task, train={"epochs": 8, "batch": 4, "keep": keep}, optimiser={"learning_rate": 0.3})
        run = training(task, config, network())
        progress = run.run()
        values = [entry["valid"] for entry in progress.history]
        assert progress.best_value == max(values)
        assert progress.best_epoch == len(values) - values[::-1].index(max(values)), "the last of equals"
        kept[keep] = run
    x, y = task.val.all()
    for keep, wanted in (
        ("best", kept["best"].progress.best_value),
        ("last", kept["last"].progress.history[-1]["valid"]),
    ):
        model = kept[keep].model.eval()
        assert float((model(x).argmax(1) == y).double().mean()) == pytest.approx(wanted)


@pytest.mark.parametrize("more", [{}, {"ema": 0.2, "patience": 1}])
def test_checkpoint_and_resume_after_any_step(task: Task, tmp_path: Path, more: dict[str, Any]) -> None:
    config = configured(task, train={"epochs": 3, "batch": 8, **more}, run={"checkpoint_seconds": 0.0})
    whole = network(0.3)
    history = training(task, config, whole).run().history
    steps = 3 * len(training_order(len(task.train), 8, generator_for(0)))
    for stop_after in range(1, steps):
        path = tmp_path / f"{stop_after}.safetensors"
        calls = iter(range(steps + 1))
        interrupted = training(
            task, config, network(0.3), checkpoint=path, stop=lambda c=calls, s=stop_after: next(c) + 1 == s
        )
        with pytest.raises(Interrupted):
            interrupted.run()
        resumed = training(task, config, network(0.3), checkpoint=path)
        progress = resumed.run()
        assert torch.equal(weights(resumed.model), weights(whole)), stop_after
        assert [_untimed(e) for e in progress.history] == [_untimed(e) for e in history]


def _untimed(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "seconds"}


def test_divergence_names_the_epoch(task: Task) -> None:
    config = configured(
        task,
        optimiser={"name": "sgd", "learning_rate": 1e30},
        train={"epochs": 5, "batch": 8},
        schedule={"name": "constant"},
    )
    advice = r"lower --set optimiser.learning_rate \(it is 1e\+30\), or set optimiser.clip=1.0$"
    with pytest.raises(Diverged, match=rf"the training loss became (nan|inf) in epoch \d: {advice}"):
        training(task, config, network()).run()


def test_a_limit_of_seconds_ends_a_training_and_its_schedule(task: Task) -> None:
    config = configured(task, train={"epochs": 100_000, "batch": 8}, budget={"training_seconds": 0.5})
    progress = training(task, config, network()).run()
    assert progress.finished
    assert not progress.reason  # it came to its end
    assert 0.5 <= progress.seconds < 20
    assert progress.epoch < 100_000
    rates = [entry["rate"] for entry in progress.history]
    assert max(rates) > 0.8
    assert rates[-1] < 0.1
    judged = [entry["seconds"] for entry in progress.history if "valid" in entry]
    assert 2 <= len(judged) < progress.epoch
    assert "valid" in progress.history[-1]


def test_a_training_has_its_own_limit(task: Task) -> None:
    config = configured(task, train={"epochs": 100_000, "batch": 8}, budget={"training_seconds": 1e9})
    run = training(task, config, network())
    run.around = dataclasses.replace(run.around, limit=0.05)
    assert run.run().seconds < 20


@pytest.mark.parametrize("steps", [1, 3, 4])
def test_an_epoch_that_time_ends_says_how_much_it_saw(task: Task, monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    def second(self: Training) -> float:
        self.progress.seconds += 1
        return 0.0

    monkeypatch.setattr(Training, "_count_time", second)  # a step takes a second
    config = configured(task, train={"epochs": 9, "batch": 8}, budget={"training_seconds": float(steps)})
    run = training(task, config, network())
    assert run.steps == 4
    (entry,) = run.run().history
    assert entry.get("seen", 1.0) == pytest.approx(sum(run.feed.sizes[:steps]) / len(task.train))
    assert ("seen" in entry) is (steps < 4)


def test_steps_that_a_gpu_has_not_done_yet_are_no_steps_in_time(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else all of them are handed over at once: their time goes by later, and their rate does not fall."""
    clock, rates, ends = [0.0], [], [0.0]

    class Event:
        """The end of a step on a GPU, where one takes a second."""

        def __init__(self, blocking: bool) -> None:
            ends.append(0.0)

        def record(self, stream: object) -> None:
            self.end = ends[-1] = max(*ends, clock[0]) + 1.0

        def synchronize(self) -> None:
            clock[0] = max(clock[0], self.end)

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    config = configured(task, train={"epochs": 4, "batch": 2}, budget={"training_seconds": 10.0})
    run = training(task, config, network())
    run.pace = Pace(torch.device("cuda", 0))
    set_rate = run.step.set_rate

    def noting(factor: float, epochs: float) -> None:
        clock[0] += 0.01  # what the CPU does
        rates.append(factor)
        set_rate(factor, epochs)

    monkeypatch.setattr(run.step, "set_rate", noting)
    assert run.run().finished
    assert 10 < len(rates) < 16
    assert max(ends) == pytest.approx(len(rates), abs=0.1)
    assert max(rates) > 0.8
    assert rates[-1] < 0.1


def test_evaluation_every_few_epochs(task: Task) -> None:
    config = configured(task, train={"epochs": 5, "batch": 8, "evaluate_every": 2})
    history = training(task, config, network()).run().history
    assert [entry["epoch"] for entry in history if "valid" in entry] == [2, 4, 5]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_precisions_learn(task: Task, precision: str) -> None:
    config = configured(task, train={"epochs": 20, "batch": 8, "precision": precision})
    run = training(task, config, network())
    history = run.run().history
    assert history[-1]["train_loss"] < 0.7 * history[0]["train_loss"]
    assert all(p.dtype == torch.float32 for p in run.model.parameters())


def test_events_tell_the_story(task: Task) -> None:
    told: list[tuple[str, dict[str, Any]]] = []
    config = configured(task, train={"epochs": 3, "batch": 8})
    training(task, config, network(), events=Events([lambda event, fields: told.append((event, fields))])).run()
    epochs = [fields for event, fields in told if event == "epoch"]
    assert [fields["epoch"] for fields in epochs] == [1, 2, 3]
    assert {"trial", "epochs", "train_loss", "valid", "rate", "seconds"} <= epochs[0].keys()


def test_targets_of_any_size_train_alike() -> None:
    """A target in millionths or in millions is learned equally well: the loss sees it in units of its spread."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 1, 8)).astype(np.float32)
    y = x[:, 0, :2].astype(np.float64)
    losses = []
    for size in (1e-6, 1.0, 1e6):
        task = task_from_arrays("toy", {"x": x, "y": y * size}, Reading())
        config = configured(task, train={"epochs": 3, "batch": 8})
        from eclose.spaces import assemble

        torch.manual_seed(0)
        model = assemble(nn.Sequential(nn.Flatten(), nn.Linear(8, 2)), task.signature, task.scale)
        losses.append(training(task, config, model).run().history[-1]["train_loss"])
    np.testing.assert_allclose(losses, losses[0], rtol=1e-3)


def test_a_training_leaves_the_configuration_alone(task: Task) -> None:
    config = configured(task, train={"epochs": 1, "batch": 8})
    before = dataclasses.asdict(config)
    training(task, config, network()).run()
    assert dataclasses.asdict(config) == before


@pytest.mark.parametrize("static", [True, False])
def test_algorithms_are_tried_out_only_for_shapes_that_stay(
    task: Task, static: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU every new shape would cost cuDNN seconds: the last batch, and networks that change their sizes."""
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    model, seen = network(), []
    model[0].static_shapes = static
    model[0].register_forward_pre_hook(
        lambda own, x: seen.append((len(x[0]), torch.backends.cudnn.benchmark)) if own.training else None
    )
    config = configured(task, train={"epochs": 1, "batch": 16})
    training(task, config, model).run()
    assert dict(seen)[16] == static
    assert [tried for size, tried in seen if size < 16] == [False]
