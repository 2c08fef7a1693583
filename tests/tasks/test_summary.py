"""The line that says how data was read, for every kind of it."""

import dataclasses

import numpy as np
import pytest

from eclose.config import TaskSection
from eclose.tasks import Reading, load_task, task_from_arrays
from eclose.tasks.summary import summary

N = 20
X = np.cumsum(np.random.default_rng(0).normal(size=(N, 2, 6, 5, 4)), axis=-1)


@pytest.mark.parametrize(
    ("x", "y", "reading", "text"),
    [
        (X[:, :, 0, 0], np.arange(N) % 3, {}, "classification, 3 classes, 2 channels x 4 positions"),
        (X[:, :, 0], np.arange(N) % 2 + 1, {}, "classification, 2 classes (1 to 2), 2 channels x 5 x 4 pixels"),
        (X[:, 0, 0], np.array(["a", "b"] * 10), {}, "classification, 2 classes (a, b), 5 channels x 4 positions"),
        (X, X[:, 0, 0, 0, 0], {}, "regression, 1 value, 2 channels x 6 x 5 x 4 voxels"),
        (X, X[:, 0, 0, 0, :3], {}, "regression, 3 values, 2 channels x 6 x 5 x 4 voxels"),
        (X, X, {}, "dense, 2 values at each voxel, 2 channels x 6 x 5 x 4 voxels"),
        (X[:, :, 0], (X[:, 0, 0] > 0).astype(int), {}, "segmentation, 2 classes, 2 channels x 5 x 4 pixels"),
        (X[:, 0, 0, 0], np.arange(N) % 2, {"channels": "columns"}, "classification, 2 classes, a table of 4 columns"),
        (np.arange(N * 4).reshape(N, 4), np.arange(N) % 2, {"tokens": True}, "classification, 2 classes, sequences of"),
        (X[:, :, 0, 0], np.arange(N) % 5 * 7, {"kind": "classification"}, "classification, 5 classes (0, 7, 14, 21, "),
    ],
)  # fmt: skip
def test_kinds(x, y, reading, text):
    task = task_from_arrays("mine", {"x": x, "y": y}, Reading(**reading))
    assert summary(task).startswith(f"mine: {text}")
    assert summary(task).endswith(", 14 / 3 / 3 samples")
    assert summary(dataclasses.replace(task, source="mine.npz", test=None)).startswith("mine.npz: ")
    assert summary(dataclasses.replace(task, test=None)).endswith(", 14 / 3 / 0 samples")


def test_named_tasks():
    task = load_task(TaskSection(name="digits", subset=20), lambda done, total: None)
    assert summary(task) == "digits: classification, 10 classes, 1 channel x 8 x 8 pixels, 20 / 300 / 300 samples"
    assert task.doubts == ()
