"""Completing a configuration: defaults by kind, every member's options written out, ranges refused."""

from typing import Any

import numpy as np
import pytest

from eclose.config import Config, from_dict
from eclose.errors import ConfigError
from eclose.search.plan import check_networks, complete
from eclose.tasks import Reading, Task, task_from_arrays


@pytest.fixture
def task() -> Task:
    rng = np.random.default_rng(0)
    return task_from_arrays("toy", {"x": rng.normal(size=(40, 2, 16)), "y": np.arange(40) % 3}, Reading())


def test_nothing_is_left_open(task: Task) -> None:
    config = complete(Config().with_values({"augment.names": ["flip", "crop"], "augment.crop.padding": 2}), task)
    assert config.augment.options == {"flip": {"probability": 0.5}, "crop": {"padding": 2}}
    assert config.task.kind == "classification"
    assert config.task.metric == "accuracy"
    assert config.loss.name == "cross_entropy"
    assert config.loss.options == {"label_smoothing": 0.0}
    assert config.backbone.name == "resnet"
    assert "width" in config.backbone.options
    assert config.strategy.name == "train"
    assert config.optimiser.learning_rate > 0
    assert config.optimiser.options["betas"] == (0.9, 0.999)
    assert config.schedule.options == {"final": 0.0}
    assert config.train.batch == 8
    assert config.run.device in ("cpu", "cuda")
    assert config.run.threads > 0


def test_completing_twice_changes_nothing(task: Task) -> None:
    once = complete(Config(), task)
    assert complete(once, task) == once
    assert complete(from_dict(once.as_dict()), task).to_toml() == once.to_toml()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"train.epochs": 0}, "train.epochs is 0, but must be at least 1"),
        ({"train.batch": -1}, "train.batch is -1"),
        ({"budget.seconds": -1.0}, "budget.seconds is -1.0"),
        ({"run.seed": -1}, "run.seed is -1"),
        ({"train.keep": "bst"}, "train.keep is 'bst'; did you mean 'best'?"),
        ({"train.precision": "float64"}, "train.precision is 'float64'"),
        ({"train.graph": True, "run.device": "cpu"}, "train.graph needs a CUDA device"),
        ({"task.metric": "mse"}, "mse"),
        ({"loss.name": "mse"}, "loss 'mse' cannot serve a classification task; these can: cross_entropy"),
        ({"loss.smoothing": 0.1}, "'cross_entropy' has no option 'smoothing'; did you mean 'label_smoothing'?"),
        ({"schedule.name": "step"}, "needs either 'every'"),
        ({"augment.names": ["blur"]}, "unknown augmentation 'blur'"),
        ({"strategy.name": "evolve"}, "unknown strategy 'evolve'"),
        ({"compare.baselines": ["fnoo"]}, "unknown backbone 'fnoo'; did you mean 'fno'?"),
        ({"backbone.name": "unet"}, "unet"),
    ],
)
def test_mistakes(task: Task, settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as error:
        check_networks(complete(Config().with_values(settings), task), task.signature, None)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
