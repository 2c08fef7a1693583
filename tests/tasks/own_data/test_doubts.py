"""Data of which nothing can be learned, and targets that no error can be relative to."""

from typing import Any

import numpy as np
import pytest

from eclose.config import Config
from eclose.engine import complete
from eclose.errors import ConfigError
from eclose.tasks.own_data.arrays import task_from_arrays
from eclose.tasks.own_data.reading import Reading
from eclose.tasks.task import Task

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 1, 8)).astype("float32")
FIELDS = RNG.normal(size=(40, 1, 8)).astype("float32")


def made(y: Any, x: Any = X) -> Task:
    return task_from_arrays("mine", {"x": x, "y": y}, Reading())


def with_zeros(*samples: int, to: float = 0.0) -> Any:
    fields = FIELDS.copy()
    fields[list(samples)] *= to
    return fields


@pytest.mark.parametrize(
    ("y", "told"),
    [
        (with_zeros(3), "1 of 40 targets in y is zero"),
        (with_zeros(3, 5), "2 of 40 targets in y are zero"),
        (with_zeros(3, to=1e-9), "1 of 40 targets in y is zero"),
        (np.zeros_like(FIELDS), "40 of 40 targets in y are zero"),
    ],
)
def test_zero_targets_are_doubtful_and_judged_by_mse(y, told):
    task = made(y)
    doubt = f"{told}: an error relative to zero means nothing, so mse is the loss and the metric where none is named"
    assert doubt in task.doubts
    config = complete(Config().with_values({"space.name": "backbone"}), task)
    assert (config.task.metric, config.loss.name) == ("mse", "mse")
    chosen = Config().with_values({"space.name": "backbone", "task.metric": "mae", "loss.name": "huber"})
    config = complete(chosen, task)
    assert (config.task.metric, config.loss.name) == ("mae", "huber")


def test_relative_errors_of_zero_targets_are_refused():
    config = Config().with_values({"space.name": "backbone", "task.metric": "relative_l2"})
    with pytest.raises(ConfigError) as error:
        complete(config, made(with_zeros(3)))
    assert str(error.value) == (
        "task.metric is 'relative_l2', but some targets in y are zero, and an error relative to zero means nothing: "
        "set it to mse or mae, or leave those samples out"
    )


def test_small_targets_are_no_zeros():
    task = made(with_zeros(3, to=1e-4))
    assert task.doubts == ()
    config = complete(Config().with_values({"space.name": "backbone"}), task)
    assert (config.task.metric, config.loss.name) == ("relative_l2", "relative_l2")


@pytest.mark.parametrize(
    ("arrays", "doubt"),
    [
        ({"y": np.full(40, 3.5)}, "y is the same in every training sample (3.5): there is nothing to learn"),
        ({"y": np.ones((40, 1, 8))}, "y is the same in every training sample: there is nothing to learn"),
        (
            {"y": np.stack([np.arange(40) / 7, np.ones(40)], 1)},
            "y does not vary in output 1, counted from 0: leave out what is the same in every sample",
        ),
        (
            {"y": np.arange(40) / 7, "x": np.ones((40, 1, 8))},
            "x is the same in every training sample: there is nothing to learn from",
        ),
    ],
)
def test_what_does_not_vary_is_doubtful(arrays, doubt):
    assert doubt in made(**arrays).doubts


def test_several_labels_a_sample_are_doubtful():
    labels = np.random.default_rng(1).integers(0, 2, (40, 3)).astype(float)
    (doubt,) = made(labels).doubts
    assert doubt == (
        "y (40, 3) holds zeros and ones, perhaps several labels a sample: its columns are read as quantities "
        "(--kind regression confirms)"
    )
    assert task_from_arrays("mine", {"x": X, "y": labels}, Reading("regression")).doubts == ()


def labels(*counts: int) -> Any:
    return np.repeat([f"class {number}" for number in range(len(counts))], counts)


def test_rare_classes_are_doubtful():
    much, missing = made(labels(39, 1)).doubts
    assert much == "96.4 % of the training samples are of class class 0: accuracy says little of the others"
    (much,) = task_from_arrays("mine", {"x": np.tile(X, (3, 1, 1)), "y": labels(112, 8)}, Reading()).doubts
    assert much.endswith("; --set task.metric=auroc judges how well they are told apart")
    assert missing == (
        "1 class of 2 (class 1) has no validation or no test sample: how well they are told apart does not show; "
        "give more samples of each"
    )
    (missing,) = made(labels(2, 15, 21, 2)).doubts
    assert missing.startswith("2 classes of 4 (class 0, class 3) have no validation or no test sample")
    assert made(labels(20, 20)).doubts == ()


def test_rare_classes_of_points_are_doubtful():
    y = np.zeros((40, *X.shape[-1:]), int)
    y[:, 0] = np.arange(40) % 2
    task = made(y)
    (much,) = task.doubts
    share = 100 * float((task.train.all()[1] == 0).float().mean())
    assert much == (
        f"{share:.3g} % of the points of the training samples are of class 0: accuracy says little of the others; "
        "--set task.metric=auroc judges how well they are told apart"
    )
    y[:, 1:5] = 1
    assert made(y).doubts == ()
    y[made(y).train.rows[0]] = 2
    (missing,) = made(y).doubts
    assert missing == (
        "1 class of 3 (2) has no validation or no test point: how well they are told apart does not show; "
        "give more samples with each"
    )


def test_a_metric_that_cannot_judge_the_validation_samples_is_refused():
    config = Config().with_values({"space.name": "backbone", "task.metric": "auroc"})
    with pytest.raises(ConfigError, match="task.metric is 'auroc', but the validation samples are of one class, which"):
        complete(config, made(labels(39, 1)))
    assert complete(config, made(labels(20, 20))).task.metric == "auroc"


def test_what_varies_in_one_sample_is_not():
    y = np.zeros(40)
    y[made(np.arange(40) / 7).train.rows[0]] = 1.5
    assert made(y).doubts == ()
