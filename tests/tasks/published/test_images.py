import numpy as np
import pytest
import torch

from eclose.config import TaskSection
from eclose.errors import TaskError
from eclose.signature import Signature
from eclose.tasks import load_task
from eclose.tasks.published.images import _decode, _grey


def load(name, progress=lambda done, total: None, data_dir="", **options):
    return load_task(TaskSection(name=name, data_dir=str(data_dir), options=options), progress)


def refused(name, **given):
    with pytest.raises(TaskError) as error:
        load(name, **given)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.fixture
def small(tmp_path):
    """A data folder with few images in the right places."""
    rng = np.random.default_rng(0)
    (tmp_path / "mnist").mkdir()
    (tmp_path / "cifar10").mkdir()
    arrays = {}
    for part, n in (("train", 30), ("test", 12)):
        arrays[f"x_{part}"] = rng.integers(0, 256, (n, 28, 28), dtype=np.uint8)
        arrays[f"y_{part}"] = (np.arange(n) % 10).astype(np.uint8)
    np.savez(tmp_path / "mnist" / "mnist.npz", **arrays)
    for name in ("train1", "train2", "train3", "train4", "train5", "test"):
        np.savez(tmp_path / "cifar10" / f"cifar10_{name}.npz", **encoded(rng.integers(0, 256, (10, 3, 32, 32))))
    return tmp_path


def encoded(images):
    """The published rule backwards: G, R-G, B-G, then differences over rows and columns (mod 256)."""
    red, green, blue = images.astype(np.uint8).transpose(1, 0, 2, 3)
    planes = np.stack([green, red - green, blue - green], axis=1)
    planes = np.diff(planes, axis=3, prepend=np.uint8(0))
    planes = np.diff(planes, axis=2, prepend=np.uint8(0))
    return {"residual": planes, "labels": (np.arange(len(images)) % 10).astype(np.uint8)}


def test_digits():
    task = load("digits")
    assert task.signature == Signature("classification", 1, (8, 8), 10)
    assert {name: len(split) for name, split in task.splits.items()} == {"train": 1197, "val": 300, "test": 300}
    x, y = task.train.all()
    assert (int(x.min()), int(x.max())) == (0, 16)
    assert np.bincount(y).min() > 100
    assert y[:10].tolist() == list(range(10))


def test_decode_is_the_inverse_of_the_coding():
    images = np.random.default_rng(1).integers(0, 256, (5, 3, 32, 32), dtype=np.uint8)
    got = _decode(encoded(images)["residual"])
    assert got.dtype == np.uint8
    np.testing.assert_array_equal(got, images)


def test_the_last_training_images_validate(small):
    task = load("mnist", data_dir=small, val=10)
    data = np.load(small / "mnist" / "mnist.npz")
    np.testing.assert_array_equal(task.train.all()[0][:, 0].numpy(), data["x_train"][:20])
    np.testing.assert_array_equal(task.val.all()[0][:, 0].numpy(), data["x_train"][20:])
    np.testing.assert_array_equal(task.val.all()[1].numpy(), data["y_train"][20:])
    np.testing.assert_array_equal(task.test.all()[0][:, 0].numpy(), data["x_test"])


def test_without_validation_images_the_test_images_validate(small):
    task = load("mnist", data_dir=small, val=0)
    assert len(task.train) == 30
    assert torch.equal(task.val.all()[0], task.test.all()[0])


def test_cifar_shards_follow_each_other(small):
    told = []
    task = load("cifar10", lambda done, total: told.append((done, total)), small, val=5, shards=2)
    assert task.signature == Signature("classification", 3, (32, 32), 10)
    assert {name: len(split) for name, split in task.splits.items()} == {"train": 15, "val": 5, "test": 10}
    first = _decode(np.load(small / "cifar10" / "cifar10_train1.npz")["residual"])
    np.testing.assert_array_equal(task.train.all()[0][:10].numpy(), first)
    assert told == [(0, 3), (1, 3), (2, 3)]


def test_sequential_cifar_is_grey_and_read_row_by_row(small):
    colours = load("cifar10", data_dir=small, val=5, shards=2)
    task = load("sequential-cifar10", data_dir=small, val=5, shards=2)
    assert task.signature == Signature("classification", 1, (1024,), 10)
    for part, split in task.splits.items():
        x, y = colours.splits[part].all()
        assert torch.equal(split.all()[1], y)
        red, green, blue = x[:, :, 2, 3].long().unbind(1)  # the pixel that comes after two rows and three more
        exact = 299 * red + 587 * green + 114 * blue
        assert (1000 * split.all()[0][:, 0, 2 * 32 + 3].long() - exact).abs().max() <= 500


def test_a_grey_picture_stays_as_it_is():
    picture = np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16)
    np.testing.assert_array_equal(_grey(np.repeat(picture, 3, axis=1)), picture[:, 0])


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("mnist", {"val": 30}, "task.val is 30, but must lie between 0 and 29"),
        ("mnist", {"val": -1}, "task.val is -1, but must lie between 0 and 29"),
        ("cifar10", {"shards": 0}, "task.shards is 0, but must lie between 1 and 5"),
        ("cifar10", {"shards": 6}, "task.shards is 6, but must lie between 1 and 5"),
        ("cifar10", {"shards": -2}, "task.shards is -2, but must lie between 1 and 5"),
    ],
)
def test_bad_options(small, name, options, text):
    assert refused(name, data_dir=small, **options) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mnist", "there is no MNIST in {}: put the four files train-images-idx3-ubyte.gz ... there "),
        ("cifar10", "there is no CIFAR-10 in {}: put cifar-10-python.tar.gz or cifar-10-binary.tar.gz there, packed "),
        ("cifar100", "there is no CIFAR-100 in {}: put cifar-100-python.tar.gz or cifar-100-binary.tar.gz there, pack"),
    ],
)
def test_missing_files(tmp_path, monkeypatch, name, text):
    assert refused(name, data_dir=tmp_path).startswith(text.format(tmp_path))
    assert refused(name, data_dir=tmp_path).endswith(", or name another folder with --data-dir or $ECLOSE_DATA")
    monkeypatch.setenv("ECLOSE_DATA", str(tmp_path / "other"))
    assert refused(name).startswith(text.format(tmp_path / "other"))
    monkeypatch.delenv("ECLOSE_DATA")
    monkeypatch.setenv("ECLOSE_CACHE", str(tmp_path / "cache"))
    assert refused(name).startswith(text.format(tmp_path / "cache" / "data"))


def test_a_missing_shard(small):
    (small / "cifar10" / "cifar10_train2.npz").unlink()
    assert refused("cifar10", data_dir=small).startswith(f"{small / 'cifar10' / 'cifar10_train2.npz'} is missing: put ")


@pytest.mark.parametrize(
    ("name", "file", "first"),
    [("mnist", "mnist/mnist.npz", "x_train"), ("cifar10", "cifar10/cifar10_train1.npz", "residual")],
)
def test_another_file_in_its_place(small, name, file, first):
    np.savez(small / file, other=np.zeros(3))
    wanted = f"{small / file} has no array '{first}': it is another file than the task needs"
    assert refused(name, data_dir=small, **({"val": 1} if name == "mnist" else {"val": 1, "shards": 1})) == wanted
    (small / file).write_bytes(b"PK")
    assert refused(name, data_dir=small).startswith(f"{small / file} is not a readable .npz file (")


def test_permuted_mnist_is_what_the_setting_permuted_makes_of_mnist(small):
    section = TaskSection(name="mnist", data_dir=str(small), permuted=True, permuted_seed=7, options={"val": 5})
    expected = load_task(section, lambda done, total: None)
    task = load("permuted-mnist", data_dir=small, val=5, seed=7)
    for part, split in task.splits.items():
        assert all(torch.equal(a, b) for a, b in zip(split.all(), expected.splits[part].all(), strict=True))
    assert not torch.equal(task.test.all()[0], load("mnist", data_dir=small, val=5).test.all()[0])
