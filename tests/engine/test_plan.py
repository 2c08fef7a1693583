"""Completing a configuration: defaults by kind, every member's options written out, ranges refused."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from eclose.backbones.consent import Consent, consenting
from eclose.backbones.reference import hand_in
from eclose.config import Config, from_dict
from eclose.engine.plan import complete, ranges, training, without_replaced
from eclose.engine.strategy import tries_graph
from eclose.errors import ConfigError
from eclose.events import Events
from eclose.spaces import Genotype
from eclose.tasks import Reading, Task, task_from_arrays
from eclose.train import Surroundings, World, device
from tests.engine.starts import check_start

NUMBERS = (
    "schedule.warmup_epochs",
    "optimiser.learning_rate",
    "optimiser.weight_decay",
    "optimiser.clip",
    "budget.minutes",
    "budget.training_seconds",
    "run.checkpoint_seconds",
)


@pytest.fixture
def task() -> Task:
    rng = np.random.default_rng(0)
    return task_from_arrays("toy", {"x": rng.normal(size=(40, 2, 16)), "y": np.arange(40) % 3}, Reading())


def test_nothing_is_left_open(task: Task) -> None:
    config = complete(Config().with_values({"augment.names": ["flip", "crop"], "augment.crop.padding": 2}), task)
    assert config.augment.options == {"flip": {"probability": 0.5}, "crop": {"padding": 2, "share": 0.0}}
    assert config.task.kind == "classification"
    assert config.task.metric == "accuracy"
    assert config.loss.name == "cross_entropy"
    assert config.loss.options == {"label_smoothing": 0.1}
    assert config.backbone.name == "inception"
    used = {"width": 32, "kernel": 7, "blocks": 6, "regions": 1, "dropout": 0.0, "drop_path": 0.0}
    assert config.backbone.options == used, "0 is written as used"
    assert config.strategy.name == "train"
    assert config.optimiser.learning_rate > 0
    assert config.optimiser.options["betas"] == (0.9, 0.999)
    assert config.schedule.options == {"final": 0.0}
    assert config.train.batch == 8
    assert config.run.device in ("cpu", "cuda")
    assert config.run.threads > 0


def test_a_rate_that_is_left_open_comes_with_what_keeps_it_safe(task: Task) -> None:
    config = complete(Config(), task)
    assert (config.optimiser.clip, config.optimiser.widest, config.schedule.warmup) == (1.0, 1024, 0.1)
    own = complete(Config().with_values({"optimiser.clip": 5.0, "schedule.warmup_epochs": 2.0}), task)
    assert (own.optimiser.clip, own.schedule.warmup, own.schedule.warmup_epochs) == (5.0, 0.0, 2.0)
    assert config.train.ema == 0.1
    sgd = complete(Config().with_values({"optimiser.name": "sgd"}), task)
    assert (sgd.optimiser.clip, sgd.optimiser.widest) == (1.0, 0)


def test_a_warmup_of_epochs_replaces_the_share_of_a_run(task: Task) -> None:
    """Of a run that is trained again, and in its final training."""
    config = complete(Config(), task)
    again = complete(config.with_values({"schedule.warmup_epochs": 2.0}), task)
    assert (again.schedule.warmup, again.schedule.warmup_epochs) == (0.0, 2.0)
    final = complete(Config().with_values({"final.schedule.warmup_epochs": 1.0}), task)
    assert final.schedule.warmup == 0.1
    told = final.final.options["schedule"]
    assert (told["warmup"], told["warmup_epochs"]) == (0.0, 1.0)


def test_a_rate_that_is_given_is_used_as_it_is(task: Task) -> None:
    config = complete(Config().with_values({"optimiser.learning_rate": 0.002}), task)
    assert (config.optimiser.clip, config.optimiser.widest, config.schedule.warmup) == (0.0, 0, 0.0)
    assert (config.train.ema, config.loss.options["label_smoothing"]) == (0.0, 0.0)


def test_labels_are_smoothed_unless_probabilities_count(task: Task) -> None:
    for settings, smoothing in (
        ({}, 0.1),
        ({"loss.label_smoothing": 0.0}, 0.0),
        ({"task.metric": "auroc"}, 0.1),
        ({"task.metric": "nll"}, 0.0),
    ):
        assert complete(Config().with_values(settings), task).loss.options["label_smoothing"] == smoothing
    assert "label_smoothing" not in complete(Config(), values(20)).loss.options


def test_completing_twice_changes_nothing(task: Task) -> None:
    state = torch.random.get_rng_state()
    once = complete(Config(), task)
    check_start(once, task)
    assert torch.equal(state, torch.random.get_rng_state())
    assert complete(once, task) == once
    assert complete(from_dict(once.as_dict()), task).to_toml() == once.to_toml()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"train.epochs": -1}, "train.epochs is -1, but must be at least 0"),
        ({"train.batch": -1}, "train.batch is -1"),
        ({"train.batch": 10**20}, "train.batch is 100000000000000000000, but must be at most 2147483648"),
        ({"budget.minutes": -1.0}, "budget.minutes is -1.0"),
        ({"budget.training_seconds": -1.0}, "budget.training_seconds is -1.0"),
        *(({key: math.inf}, f"{key} is inf, but must be finite") for key in NUMBERS),
        *(({key: math.nan}, f"{key} is nan, but must be at least 0") for key in NUMBERS),
        ({"run.seed": -1}, "run.seed is -1"),
        (
            {"space.name": "portfolio", "strategy.restarts": 4},
            "'portfolio' has no option 'restarts', but 'supernet' has: say --space xd",
        ),
        (
            {"space.name": "portfolio", "strategy.order": 2},
            "'portfolio' has no option 'order', but 'bilevel' has: say --space nos",
        ),
        (
            {"space.name": "portfolio", "space.depth": [2, 2, 2]},
            "'portfolio' has no option 'depth', but 'xd' has: say --space xd",
        ),
        (
            {"strategy.name": "bilevel"},
            "'bilevel' moves an architecture, and the space 'backbone' has none: choose one",
        ),
        ({"schedule.warmup": 1.5}, "schedule.warmup is 1.5, but must be at most 1"),
        ({"schedule.warmup": 0.1, "schedule.warmup_epochs": 1.0}, "say the same in two ways: leave one out"),
        ({"train.keep": "bst"}, "train.keep is 'bst'; did you mean 'best'?"),
        ({"train.precision": "float64"}, "train.precision is 'float64'"),
        ({"train.graph": "of"}, "train.graph is 'of'; did you mean 'off'?"),
        ({"train.graph": "on", "run.device": "cpu"}, "train.graph needs a CUDA device"),
        ({"task.metric": "mse"}, "mse"),
        ({"loss.name": "mse"}, "loss 'mse' cannot serve a classification task; these can: cross_entropy"),
        ({"loss.smoothing": 0.1}, "'cross_entropy' has no option 'smoothing'; did you mean 'label_smoothing'?"),
        ({"loss.label_smoothing": 2}, "label_smoothing is 2.0, but must lie between 0 and 1"),
        ({"optimiser.betas": [2.0, 0.9]}, "optimiser 'adamw': Invalid beta parameter at index 0: 2.0"),
        ({"optimiser.betas": [0.9]}, "betas are [0.9], but must be two numbers"),
        ({"optimiser.eps": -1}, "optimiser 'adamw': Invalid epsilon value"),
        ({"optimiser.eps": math.inf}, "optimiser 'adamw': its options must be finite"),
        ({"optimiser.name": "sgd", "optimiser.momentum": -1}, "momentum is -1.0, but must be at least 0 and below 1"),
        ({"optimiser.name": "sgd", "optimiser.momentum": math.nan}, "momentum is nan"),
        (
            {"optimiser.name": "sgd", "optimiser.momentum": 0, "optimiser.nesterov": True},
            "Nesterov momentum requires a momentum",
        ),
        ({"optimiser.name": "adadelta", "optimiser.rho": 5}, "optimiser 'adadelta': Invalid rho value"),
        ({"schedule.name": "step"}, "needs either 'every'"),
        (
            {"schedule.name": "step", "schedule.every": 0.01, "schedule.factor": 1e300},
            "schedule.factor is 1e+300, whose power 3000 is too large",
        ),
        ({"augment.names": ["crop"], "augment.crop": 3}, "augment.crop is 3, but must be a table"),
        ({"augment.names": ["blur"]}, "unknown augmentation 'blur'"),
        ({"strategy.name": "evolve"}, "unknown strategy 'evolve'"),
        ({"compare.baselines": ["fnoo"]}, "unknown backbone 'fnoo'; did you mean 'fno'?"),
        ({"backbone.name": "unet"}, "unet"),
        (
            {"space.name": "nos", "strategy.restarts": 2},
            "'bilevel' has no option 'restarts', but 'supernet' has: say --strategy supernet",
        ),
        (
            {"space.name": "nos", "strategy.momentum": 2.0},
            "strategy.momentum is 2.0, but must be at least 0 and below 1",
        ),
    ],
)
def test_mistakes(task: Task, settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as error:
        check_start(complete(Config().with_values(settings), task), task)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"loss.name": "huber", "loss.delta": -1}, "delta is -1.0, but must be above 0 and finite"),
        ({"loss.name": "huber", "loss.delta": math.nan}, "delta is nan"),
        ({"loss.name": "relative_l2", "loss.floor": math.nan}, "floor is nan, but must be at least 0 and finite"),
    ],
)
def test_mistakes_in_losses_of_values(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        complete(Config().with_values(settings), values(40))


def values(samples: int) -> Task:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(samples, 1)), rng.normal(size=samples)
    arrays = {"x_train": x, "y_train": y, "x_val": x, "y_val": y}
    return task_from_arrays("values", arrays, Reading())


@pytest.mark.parametrize(("samples", "settings"), [(60, {"train.batch": 1}), (1, {}), (1, {"train.batch": 16})])
def test_networks_are_tried_with_a_single_sample_where_training_will_do_so(
    samples: int, settings: dict[str, Any]
) -> None:
    task = values(samples)
    config = complete(Config().with_values(settings), task)
    with pytest.raises(ConfigError, match="'resnet' failed in training .* Expected more than 1 value per channel"):
        check_start(config, task)


@pytest.mark.parametrize("setting", ["train.batch", "final.train.batch"])
def test_networks_of_cells_are_tried_with_a_single_sample_too(setting: str) -> None:
    task = values(60)
    sizes = {"space.name": "nos", "space.blocks": 1, "space.cells": 3, "space.width": 2}
    config = complete(Config().with_values({**sizes, setting: 1}), task)
    with pytest.raises(ConfigError, match="'NOS cells' failed in training .* must have 2 samples or more"):
        check_start(config, task)


def test_a_stage_that_leaves_its_length_open_has_that_of_the_search(task: Task) -> None:
    open_ = {f"{stage}.train.{name}": 0 for stage in ("final", "teacher") for name in ("epochs", "batch")}
    settings = {"space.name": "xd", "final.networks": 1, "teacher.network": "resnet", "train.epochs": 3}
    config = complete(Config().with_values({**settings, **open_}), task)
    for stage in (config.final, config.teacher):
        assert (stage.options["train"]["epochs"], stage.options["train"]["batch"]) == (3, 8)


@pytest.mark.parametrize("samples", [1, 3])
def test_bilevel_needs_samples_for_both_halves(samples: int) -> None:
    told = rf"the strategy 'bilevel' needs at least 4 training samples, and there (is|are) {samples}: give it more"
    with pytest.raises(ConfigError, match=told):
        complete(Config().with_values({"space.name": "xd", "strategy.name": "bilevel"}), values(samples))


def test_networks_are_tried_in_training(task: Task) -> None:
    class Silent(nn.Sequential):
        def forward(self, x: Any) -> Any:
            return super().forward(x).detach()

    name = hand_in(Silent(nn.Flatten(), nn.Linear(32, 3)))
    config = Config().with_values({"backbone.name": name})
    with consenting(Consent({name: ""})), pytest.raises(ConfigError, match="no gradient reaches its parameters"):
        check_start(complete(config, task), task)


def test_a_graph_is_refused_where_it_would_be_ignored(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "choose_device", lambda name: torch.device("cuda"))
    graph = Config().with_values({"train.graph": "on"})
    assert complete(graph, task).train.graph == "on"
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="works in one process only"):
        complete(graph, task)


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({}, ("einspace", {"stop": 0.4}, "evolution", {"halving": 2})),
        (
            {"space.name": "einspace", "strategy.name": "evolution"},
            ("einspace", {"stop": 0.4}, "evolution", {"halving": 2}),
        ),
        ({"strategy.name": "random"}, ("einspace", {"stop": 0.4}, "", {})),
        ({"space.name": "xd"}, ("xd", {}, "", {})),
        ({"space.name": "xd", "strategy.name": "evolution"}, ("xd", {}, "", {"halving": 2})),
    ],
)
def test_options_of_a_recipe_go_with_the_member_that_has_them(changes: dict[str, str], kept: Any) -> None:
    settings = {"space.name": "einspace", "space.stop": 0.4, "strategy.name": "evolution", "strategy.halving": 2}
    found = without_replaced(Config().with_values(settings), changes)
    assert (found.space.name, found.space.options, found.strategy.name, found.strategy.options) == kept


@pytest.mark.parametrize(
    ("where", "settings", "precision", "deterministic"),
    [
        ("cpu", {}, "float32", True),
        ("cpu", {"run.deterministic": False, "train.precision": "bfloat16"}, "bfloat16", True),
        ("cuda", {}, "tf32", False),
        ("cuda", {"run.deterministic": True, "train.precision": "float32"}, "float32", True),
    ],
)
def test_speed_and_precision_are_written_as_they_are_used(
    task: Task, where: str, settings: dict[str, Any], precision: str, deterministic: bool, monkeypatch: Any
) -> None:
    for module in (ranges, training, device):
        monkeypatch.setattr(module, "choose_device", lambda name: torch.device(where))
    config = complete(Config().with_values({"final.train.epochs": 3, **settings}), task)
    assert (config.train.precision, config.run.deterministic) == (precision, deterministic)
    assert config.final.options["train"]["precision"] == precision


def test_the_space_s_own_strategy_may_be_named() -> None:
    recipe = Config().with_values({"space.name": "xd", "strategy.learning_rate": 0.5})
    assert without_replaced(recipe, {"strategy.name": "supernet"}) == recipe
    assert without_replaced(recipe, {"space.name": "backbone"}).strategy.options == {}


@pytest.mark.parametrize(
    ("backbone", "device", "size", "settings", "tries"),
    [
        ("lenet", "cuda", 1, {}, True),
        ("networks:Mine", "cuda", 1, {}, False),
        ("lenet", "cpu", 1, {}, False),
        ("lenet", "cuda", 2, {}, False),
        ("lenet", "cuda", 1, {"train.precision": "float16"}, False),
        ("lenet", "cuda", 1, {"train.graph": "off"}, False),
    ],
)
def test_what_is_tried_as_a_graph(backbone: str, device: str, size: int, settings: dict[str, Any], tries: bool) -> None:
    # A baseline of the user's own beside a network of the library's, or the other way round.
    config = Config().with_values({"backbone.name": "lenet" if ":" in backbone else "networks:Mine", **settings})
    around = Surroundings(0, 0, torch.device(device), World(size=size), Events())
    assert tries_graph(config, Genotype("backbone", {"backbone": backbone, "options": {}}), around) == tries
