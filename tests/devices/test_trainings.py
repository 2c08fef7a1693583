"""Trainings on another device than the CPU: data, changes of samples, losses, steps, hooks, metrics, what is found.

A step that a CUDA graph may replay neither waits for the device nor copies from the CPU once it has warmed up.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from eclose.engine import Search
from eclose.engine.attention_maps import attention_section
from eclose.engine.strategy import make_strategy
from eclose.spaces import assemble
from eclose.train import Training, measure_cost, measure_latency
from eclose.train.evaluation import is_constant
from eclose.train.teacher import Teacher
from tests.contracts.cases import CONTINUOUS, Arrays, Case, fields, images, signals, words
from tests.devices.elsewhere import AROUND, DEVICE, elsewhere

RESNET = {"backbone.name": "resnet", "backbone.width": 4}
FNO = {"backbone.name": "fno", "backbone.width": 4, "backbone.modes": 2}
BEHIND_LINEAR = {"backbone.name": "linear_plus", "backbone.network": "cnn", "backbone.width": 4}
LENET = CONTINUOUS["xd"].settings
MASKS = {**CONTINUOUS["dnarch"].settings, "space.target": 0.5, "space.learn_mean": True}
CELLS = {**CONTINUOUS["nos"].settings, "train.batch": 16}
LIMITS = {"space.operations": "features", "space.parameters": 40000.0, "space.skips": 1}
BLENDED = {"augment.names": ["patch", "crop", "cutout"], "loss.label_smoothing": 0.1, "task.metric": "nll"}
NOISY = {"augment.names": ["mix", "scale", "jitter"], "task.metric": "auroc"}
MIRRORED = {"augment.names": ["flip", "mix"], "loss.name": "huber"}
AVERAGED = {"train.ema": 0.1, "optimiser.clip": 1.0}
ANEW = {"strategy.restarts": 2, "strategy.warmup_epochs": 0.5, "train.epochs": 2}
SECOND = {"strategy.order": 2, "train.batch": 16}

SEARCHES = {
    "images": ({"space": "backbone"}, images, {**LENET, **BLENDED, **AVERAGED}),
    "signals": ({"space": "backbone"}, signals, {**RESNET, **NOISY}),
    "levels": ({"space": "backbone"}, images, {**LENET, **BLENDED, "task.standardise": "levels"}),
    "levels of signals": ({"space": "xd"}, signals, {**RESNET, **NOISY, "task.standardise": "levels"}),
    "fields": ({"space": "backbone"}, fields, {**FNO, **MIRRORED}),
    "behind a linear map": ({"space": "backbone"}, fields, {**BEHIND_LINEAR, **AVERAGED}),
    "words": ({"space": "backbone"}, words, {**RESNET, "task.tokens": True, "optimiser.name": "sgd"}),
    "xd": ({"space": "xd"}, images, {**LENET, "space.distance_penalty": 0.1}),
    "xd on fields": ({"space": "xd"}, fields, FNO),
    "discrete": ({"space": "discrete"}, images, LENET),
    "restarts": ({"space": "discrete", "strategy": "supernet"}, images, {**LENET, **ANEW}),
    "second order": ({"space": "discrete", "strategy": "bilevel"}, images, {**LENET, **SECOND}),
    "chrysalis": ({"space": "chrysalis"}, images, LENET),
    "dnarch": ({"space": "dnarch"}, signals, MASKS),
    "dnarch on images": ({"space": "dnarch"}, images, {**RESNET, "space.target": 0.5}),
    "resolutions": ({"space": "dnarch"}, images, {**RESNET, "space.learn": "RWD", "space.target": 0.5}),
    "nos": ({"space": "nos"}, signals, CELLS),
    "nos within limits": ({"space": "nos"}, signals, {**CELLS, **LIMITS}),
}


def searched(names: dict[str, str], data: Callable[[], Arrays], settings: dict[str, Any]) -> Search:
    return Case(data, {"train.epochs": 1, **settings}).search(**names)


def trained(search: Search, notes: list[str], role: str = "search") -> Training:
    """A training as a run has it, then a step that waits for nothing if a graph may replay it."""
    torch.manual_seed(3)
    strategy = make_strategy(search.config)
    prepared = strategy.prepare(search, search.start, AROUND, role)
    signature = search.task.signature
    assert measure_cost(prepared.model, signature, DEVICE).parameters
    training = Training(
        prepared.model, prepared.task, prepared.step, prepared.config, AROUND, prepared.phases, prepared.lesson
    )
    assert training.run().history[-1]["train_loss"] > 0
    batch = training.feed.batch(0)
    training.model.train()
    training.step.set_rate(1.0, search.config.train.epochs - 0.5)
    notes.clear()
    training.step(*batch)
    waits = [note for note in notes if "train/data.py" not in note]  # on a GPU the data may lie there
    assert waits == [] or not training.verbs.static_shapes
    is_constant(training.model, search.task, DEVICE)
    strategy.found(search, search.start, training.model)
    return training


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search(name):
    with elsewhere() as notes:
        trained(searched(*SEARCHES[name]), notes)


def test_the_training_after_a_search():
    with elsewhere() as notes:
        trained(searched({"space": "nos"}, signals, {**CELLS, "space.drop_path": 0.2}), notes, "final")


def test_a_teacher():
    search = searched({"space": "backbone"}, signals, RESNET)
    signature = search.task.signature
    network = assemble(search.space.build(search.start, signature), signature, search.task.scale)
    with elsewhere() as notes:
        search = replace(search, teacher=Teacher(network.to(DEVICE), signature, 10.0))
        training = trained(search, notes)
        x, _ = search.task.val.take(torch.arange(3))
        assert attention_section(search.teacher, training.model, x.to(DEVICE)).pictures
        assert measure_latency(training.model, x.to(DEVICE)) > 0
