"""Published data through the front door, against figures published with it."""

import numpy as np
import torch

from eclose.config import TaskSection
from eclose.signature import Signature
from eclose.tasks import load_task


def load(**section):
    return load_task(TaskSection(**section), lambda done, total: None)


def test_ecg5000(shared):
    path = shared / "timeseries" / "ECG5000.npz"
    task = load(data=str(path))
    data = np.load(path)
    assert task.signature == Signature("classification", 1, (140,), 5)
    assert len(task.train) + len(task.val) == 500
    assert len(task.test) == 4500
    np.testing.assert_array_equal(task.test.all()[0][:, 0].numpy(), data["x_test"])
    np.testing.assert_array_equal(task.test.all()[1].numpy(), data["y_test"])
    rows = torch.cat([task.train.rows, task.val.rows])
    assert sorted(rows.tolist()) == list(range(500))
    shares = np.bincount(task.val.all()[1], minlength=5) / np.bincount(data["y_train"], minlength=5)
    assert np.abs(shares[:2] - 0.15 / 0.85).max() < 0.01  # the two large classes


def test_japanese_vowels(shared):
    task = load(data=str(shared / "timeseries" / "JapaneseVowels.npz"))
    assert task.signature == Signature("classification", 12, (29,), 9)
    assert len(task.train) + len(task.val) == 270
    assert len(task.test) == 370
    assert task.scale.x_mean.shape == (12,)


def test_mnist(shared):
    task = load(name="mnist", data_dir=str(shared))
    assert task.signature == Signature("classification", 1, (28, 28), 10)
    assert {name: len(split) for name, split in task.splits.items()} == {"train": 55000, "val": 5000, "test": 10000}
    x = torch.cat([task.train.all()[0], task.val.all()[0]]).double() / 255
    assert abs(float(x.mean()) - 0.1307) < 5e-5
    assert abs(float(x.std(correction=0)) - 0.3081) < 5e-5
    assert task.train.all()[1][:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]


def test_one_shard_of_cifar10(shared):
    task = load(name="cifar10", data_dir=str(shared), options={"shards": 1, "val": 1000})
    assert task.signature == Signature("classification", 3, (32, 32), 10)
    assert {name: len(split) for name, split in task.splits.items()} == {"train": 9000, "val": 1000, "test": 10000}
    assert np.bincount(task.test.all()[1]).tolist() == [1000] * 10
    x = torch.cat([task.train.all()[0], task.val.all()[0]])[:, :, ::2, ::2].double() / 255
    # of all five shards and all pixels, hence roughly
    torch.testing.assert_close(x.mean((0, 2, 3)), torch.tensor([0.4914, 0.4822, 0.4465]).double(), atol=0.01, rtol=0)
    assert task.train.all()[1][:5].tolist() == [6, 9, 9, 4, 1]
    images = task.train.x[:2000].double()
    steps = (images.diff(dim=3).abs().mean(), images.flip(0).sub(images).abs().mean())
    assert steps[0] < 0.3 * steps[1]  # neighbours are alike: no column was mixed up


def test_all_of_cifar10_has_the_published_mean_and_spread(shared):
    task = load(name="cifar10", data_dir=str(shared), options={"val": 0})
    mean, std = task.scale.x_mean / 255, task.scale.x_std / 255
    torch.testing.assert_close(mean, torch.tensor([0.49139968, 0.48215841, 0.44653091]), atol=1e-6, rtol=0)
    torch.testing.assert_close(std, torch.tensor([0.24703223, 0.24348513, 0.26158784]), atol=1e-6, rtol=0)
    assert np.bincount(task.train.all()[1]).tolist() == [5000] * 10
