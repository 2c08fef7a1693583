"""Published data through the front door, against figures published with it."""

import numpy as np
import pytest
import torch

from eclose.config import TaskSection
from eclose.signature import Signature
from eclose.tasks import load_task
from eclose.tasks.published.images import _decode
from tests.tasks.published.pieces import sizes


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


# The published sets are of the einspace paper, appendix B.2.


@pytest.mark.parametrize(
    ("name", "signature", "published"),
    [
        ("addnist", Signature("classification", 3, (28, 28), 20), (45000, 15000, 10000)),
        ("multnist", Signature("classification", 3, (28, 28), 10), (50000, 10000, 10000)),
        ("language", Signature("classification", 1, (24, 24), 10), (50000, 10000, 10000)),
        ("gutenberg", Signature("classification", 1, (27, 18), 6), (45000, 15000, 6000)),
    ],
)
def test_shapes_sizes_and_classes_as_published(shared, name, signature, published):
    task = load(name=name, data_dir=str(shared), standardise=False)
    assert task.signature == signature
    assert tuple(sizes(task).values()) == published
    for split in task.splits.values():
        assert set(np.bincount(split.y)) == {len(split) // signature.outputs}


@pytest.mark.parametrize(
    ("name", "rule"), [("addnist", lambda d: d.sum(1) - 1), ("multnist", lambda d: d.prod(1) % 10)]
)
def test_arithmetic_with_mnist(shared, name, rule):
    task = load(name=name, data_dir=str(shared), options={"train": 1000, "val": 500, "test": 500})
    data = np.load(shared / "mnist" / "mnist.npz")
    for part, split in task.splits.items():
        file = "test" if part == "test" else "train"
        known = {x.tobytes(): int(y) for x, y in zip(data[f"x_{file}"], data[f"y_{file}"], strict=True)}
        x, y = split.all()
        digits = np.array([[known[channel.tobytes()] for channel in image] for image in x.numpy()])
        np.testing.assert_array_equal(rule(digits), y)


def test_reviews_of_imdb(shared):
    task = load(name="imdb", data_dir=str(shared), options={"val": 0, "length": 64})
    assert sizes(task) == {"train": 25000, "val": 25000, "test": 25000}
    assert np.bincount(task.train.all()[1]).tolist() == np.bincount(task.test.all()[1]).tolist() == [12500, 12500]
    x = task.train.all()[0]
    assert len({row.tobytes() for row in x.numpy()}) > 24000  # 24904 whole texts differ
    assert bytes(x[0].tolist()).decode().isprintable()


def test_sequential_cifar10_has_the_brightness_of_cifar10(shared):
    task = load(name="sequential-cifar10", data_dir=str(shared), options={"shards": 1, "val": 1000})
    colours = load(name="cifar10", data_dir=str(shared), options={"shards": 1, "val": 1000})
    assert sizes(task) == {"train": 9000, "val": 1000, "test": 10000}
    x = colours.val.all()[0].double()
    brightness = (0.299 * x[:, 0] + 0.587 * x[:, 1] + 0.114 * x[:, 2]).flatten(1)
    torch.testing.assert_close(task.val.all()[0][:, 0].double(), brightness, atol=0.501, rtol=0)


def test_tiles_of_cifar10(shared):
    task = load(name="cifartile", data_dir=str(shared), options={"train": 400, "val": 400, "test": 400})
    assert task.signature == Signature("classification", 3, (64, 64), 4)
    data = np.load(shared / "cifar10" / "cifar10_test.npz")
    images, labels = _decode(data["residual"]), data["labels"]
    known = {image.tobytes(): int(label) for image, label in zip(images, labels, strict=True)}
    x, y = task.test.all()
    quarters = x.unfold(2, 32, 32).unfold(3, 32, 32).permute(0, 2, 3, 1, 4, 5).reshape(-1, 4, 3, 32, 32).numpy()
    kinds = [len({known[quarter.tobytes()] for quarter in image}) for image in quarters]
    assert [kind - 1 for kind in kinds] == y.tolist()


@pytest.mark.parametrize(("name", "low", "high"), [("language", 0.75, 0.9), ("gutenberg", 0.25, 0.4)])
def test_a_linear_network_reads_as_much_as_expected(shared, name, low, high):
    """Logistic regression reaches 82 and 31 % (least squares about as much): labels belong to their words."""
    task = load(name=name, data_dir=str(shared))

    def design(split):
        x = split.all()[0].flatten(1).float()
        return torch.cat([x, torch.ones(len(x), 1)], 1)

    x = design(task.train)
    y = torch.nn.functional.one_hot(task.train.y.long(), task.signature.outputs).float()
    weights = torch.linalg.solve(x.T @ x + torch.eye(x.shape[1]), x.T @ y)
    right = (design(task.test) @ weights).argmax(1) == task.test.y
    assert low < float(right.float().mean()) < high
