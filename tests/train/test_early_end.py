"""Trainings that are told to end, and trainings without validation samples."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from eclose.config import Config
from eclose.engine import complete
from eclose.events import Events
from eclose.tasks import Reading, Task, task_from_arrays
from eclose.train import GradientStep, Objective, Surroundings, Training, World
from eclose.train.optimisers import make_optimiser, parameter_groups

DEVICE = torch.device("cpu")


def toy() -> Task:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 1, 4)).astype(np.float32)
    return task_from_arrays("toy", {"x": x, "y": x.sum((1, 2))}, Reading())


def training(task: Task, hopeless: Any = None, **settings: Any) -> Training:
    changes = {key.replace("__", "."): value for key, value in settings.items()}
    config = complete(Config().with_values({"train.epochs": 6, "train.batch": 8, **changes}), toy())
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 1))
    groups = parameter_groups(model, 0.01, 0.0, decay_vectors=False)
    optimisers = [make_optimiser("sgd", groups, {"momentum": 0.9})]
    around = Surroundings(0, 0, DEVICE, World(), Events())
    if hopeless:
        around = replace(around, hopeless=hopeless)
    step = GradientStep(model, Objective.of(task, config.loss, DEVICE), optimisers, 0.0, "float32", DEVICE, World())
    return Training(model, task, step, config, around)


def test_it_is_asked_after_every_evaluated_epoch_but_the_last() -> None:
    asked = []

    def hopeless(history: list[dict[str, Any]]) -> str:
        asked.append([entry["epoch"] for entry in history])
        return ""

    progress = training(toy(), hopeless, train__evaluate_every=2).run()
    assert asked == [[1, 2], [1, 2, 3, 4]]
    assert (progress.epoch, progress.reason) == (6, "")


def test_it_ends_with_its_reason_and_its_best_weights() -> None:
    early = training(toy(), lambda history: "far behind" if len(history) == 3 else "")
    progress = early.run()
    assert (progress.epoch, progress.reason, len(progress.history)) == (3, "far behind", 3)
    shorter = training(toy(), lambda history: "" if len(history) < 3 else "enough")
    assert shorter.run().best_value == progress.best_value
    assert all(torch.equal(a, b) for a, b in zip(early.model.parameters(), shorter.model.parameters(), strict=True))
    whole = training(toy())
    values = [entry["valid"] for entry in whole.run().history]
    assert values[:3] == [entry["valid"] for entry in progress.history], "the schedule is that of the whole training"


def test_without_validation_samples_the_last_weights_are_kept() -> None:
    task = toy()
    without = replace(task, val=task.val.select(torch.arange(0)))
    blind, seeing = training(without), training(task, train__keep="last")
    history, wanted = blind.run().history, seeing.run().history
    assert all("valid" not in entry for entry in history)
    assert [entry["train_loss"] for entry in history] == [entry["train_loss"] for entry in wanted]
    assert all(torch.equal(a, b) for a, b in zip(blind.model.parameters(), seeing.model.parameters(), strict=True))


def test_patience_counts_epochs_without_a_better_validation() -> None:
    settings = {"train__epochs": 60, "schedule__name": "constant"}
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 1, 4)).astype(np.float32)
    noise = task_from_arrays("noise", {"x": x, "y": rng.normal(size=60)}, Reading())  # nothing to learn
    whole = [entry["valid"] for entry in training(noise, **settings).run().history]
    patient = training(noise, train__patience=4, **settings)
    progress = patient.run()
    best = next(e for e in range(60) if all(whole[e] <= value for value in whole[e + 1 : e + 5]))
    assert progress.epoch == best + 5 < 60
    assert progress.best_epoch == best + 1
    assert progress.reason == f"stopped after epoch {best + 5}: no better on validation since epoch {best + 1}"
    assert [entry["valid"] for entry in progress.history] == whole[: best + 5]


def test_patience_needs_validation_samples() -> None:
    task = toy()
    none = replace(task, val=task.val.select(torch.arange(0)))
    assert training(none, train__patience=1).run().epoch == 6
