"""MNIST and CIFAR in all the forms in which people have them, made here with a few images."""

import gzip
import pickle
import tarfile

import numpy as np
import pytest

from eclose.config import TaskSection
from eclose.errors import TaskError
from eclose.signature import Signature
from eclose.tasks import load_task
from eclose.tasks.published.archives import CIFAR10, CIFAR100

RNG = np.random.default_rng(0)
EACH = 20  # images a file


def load(name, folder, progress=lambda done, total: None, **options):
    return load_task(TaskSection(name=name, data_dir=str(folder), options={"val": 5, **options}), progress)


def batches(edition):
    labels = np.arange(EACH) % 10 * (1 if edition is CIFAR10 else 11)
    names = [name for names in edition.parts.values() for name in names]
    return {name: (RNG.integers(0, 256, (EACH, 3, 32, 32), dtype=np.uint8), labels) for name in names}


def write(folder, edition, binary, content):
    place = folder / edition.folders[binary]
    place.mkdir(parents=True)
    for name, (x, y) in content.items():
        if binary:
            marks = [np.zeros((EACH, 1), np.uint8)] * (edition.labels - 1) + [y[:, None].astype(np.uint8)]
            (place / f"{name}.bin").write_bytes(np.concatenate([*marks, x.reshape(EACH, -1)], axis=1).tobytes())
        else:
            batch = {b"data": x.reshape(EACH, -1), edition.key.encode(): y.tolist(), b"filenames": [b"a.png"] * EACH}
            (place / name).write_bytes(pickle.dumps(batch, 2))
    (place / "readme.html").write_text("others do no harm")
    return place


def packed(folder, edition, binary, content):
    place = write(folder, edition, binary, content)
    archive = folder / edition.archives[binary]
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(place, place.name)
    for file in place.iterdir():
        file.unlink()
    place.rmdir()
    return archive


@pytest.mark.parametrize("where", ["", "cifar10", "inside"])
@pytest.mark.parametrize("form", [write, packed])
@pytest.mark.parametrize("binary", [False, True])
def test_cifar10(tmp_path, form, binary, where):
    content = batches(CIFAR10)
    folder = tmp_path if where == "inside" else tmp_path / where
    folder.mkdir(exist_ok=True)
    place = form(folder, CIFAR10, binary, content)
    if where == "inside" and form is packed:
        return
    told = []
    task = load("cifar10", place if where == "inside" else tmp_path, lambda *count: told.append(count), shards=3)
    assert task.signature == Signature("classification", 3, (32, 32), 10)
    x, y = (np.concatenate([content[f"data_batch_{i}"][k] for i in (1, 2, 3)]) for k in (0, 1))
    np.testing.assert_array_equal(task.train.all()[0].numpy(), x[:-5])
    np.testing.assert_array_equal(task.train.all()[1].numpy(), y[:-5])
    np.testing.assert_array_equal(task.test.all()[0].numpy(), content["test_batch"][0])
    assert told == [(i, 4) for i in range(4)]


@pytest.mark.parametrize("binary", [False, True])
def test_cifar100(tmp_path, binary):
    content = batches(CIFAR100)
    packed(tmp_path, CIFAR100, binary, content)
    task = load("cifar100", tmp_path)
    assert task.layout.classes == tuple(range(0, 100, 11))
    np.testing.assert_array_equal(task.test.all()[0].numpy(), content["test"][0])
    np.testing.assert_array_equal(task.test.all()[1].numpy(), content["test"][1] // 11)


def test_a_hostile_archive_runs_nothing(tmp_path):
    class Command:
        def __reduce__(self):
            return open, (str(tmp_path / "ran"), "w")

    place = write(tmp_path, CIFAR10, False, batches(CIFAR10))
    (place / "data_batch_2").write_bytes(pickle.dumps({b"data": Command(), b"labels": []}, 2))
    with pytest.raises(TaskError) as error:
        load("cifar10", tmp_path)
    assert str(error.value).startswith(
        f"{place} is not a readable part of CIFAR-10 (it names io.open, which is not data)"
    )
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (
            lambda place: (place / "data_batch_3.bin").unlink(),
            "{} has no file 'data_batch_3': it is not all of CIFAR-10",
        ),
        (
            lambda place: (place / "data_batch_3.bin").write_bytes(b"123"),
            "{} is not a readable part of CIFAR-10 (its 3 bytes are no images of 3073 bytes): download it again",
        ),
    ],
)
def test_spoilt_folders(tmp_path, spoil, text):
    place = write(tmp_path, CIFAR10, True, batches(CIFAR10))
    spoil(place)
    with pytest.raises(TaskError) as error:
        load("cifar10", tmp_path)
    assert str(error.value) == text.format(place)


def test_spoilt_archives(tmp_path):
    archive = packed(tmp_path, CIFAR10, False, batches(CIFAR10))
    content = archive.read_bytes()
    for spoilt in (b"", b"text", content[: len(content) // 2]):
        archive.write_bytes(spoilt)
        with pytest.raises(TaskError) as error:
            load("cifar10", tmp_path)
        assert str(error.value).startswith(f"{archive} is not a readable part of CIFAR-10 (")
        assert str(error.value).endswith("): download it again")


@pytest.mark.parametrize(
    "batch",
    [[1], {}, {"data": np.zeros((2, 3), np.uint8), "labels": [0, 1]}, {"data": np.zeros((1, 3072), np.uint8)}],
)
def test_other_pickles(tmp_path, batch):
    place = write(tmp_path, CIFAR10, False, batches(CIFAR10))
    (place / "data_batch_1").write_bytes(pickle.dumps(batch, 2))
    with pytest.raises(TaskError, match="is not a readable part of CIFAR-10"):
        load("cifar10", tmp_path)


def idx(array):
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return head + array.astype(np.uint8).tobytes()


def write_mnist(folder, suffix="", dot="-"):
    folder.mkdir(parents=True, exist_ok=True)
    content = {}
    for part in ("train", "t10k"):
        x, y = RNG.integers(0, 256, (EACH, 28, 28)), np.arange(EACH) % 10
        content[part] = x, y
        for what, array in ((f"images{dot}idx3", x), (f"labels{dot}idx1", y)):
            data = idx(array)
            path = folder / f"{part}-{what}-ubyte{suffix}"
            path.write_bytes(gzip.compress(data) if suffix else data)
    return content


@pytest.mark.parametrize("where", ["MNIST/raw", "mnist", "raw", "."])
@pytest.mark.parametrize(("suffix", "dot"), [("", "-"), (".gz", "-"), ("", ".")])
def test_mnist(tmp_path, where, suffix, dot):
    content = write_mnist(tmp_path / where, suffix, dot)
    task = load("mnist", tmp_path)
    assert task.signature == Signature("classification", 1, (28, 28), 10)
    np.testing.assert_array_equal(task.train.all()[0][:, 0].numpy(), content["train"][0][:-5])
    np.testing.assert_array_equal(task.test.all()[1].numpy(), content["t10k"][1])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is not in the idx format"),
        (b"text", "it is not in the idx format"),
        (idx(np.zeros((4, 3)))[:-1], "its size is not what it says"),
        (bytes([0, 0, 8, 3, 0, 0]), "unpack requires a buffer of 12 bytes"),
        (bytes([0, 0, 8, 2]) + b"\xff" * 8, "its size is not what it says"),
    ],
)
def test_spoilt_idx(tmp_path, data, reason):
    write_mnist(tmp_path)
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(data)
    with pytest.raises(TaskError) as error:
        load("mnist", tmp_path)
    assert str(error.value) == f"{path} is not a readable idx file ({reason}): download it again"


def test_idx_files_that_do_not_belong_together(tmp_path):
    write_mnist(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(np.zeros(3)))
    with pytest.raises(TaskError, match="do not belong together: download them again"):
        load("mnist", tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").unlink()
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(b"text")
    with pytest.raises(TaskError, match="train-labels-idx1-ubyte.gz is not a readable idx file"):
        load("mnist", tmp_path)


def test_a_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("eclose.tasks.published.archives._LARGEST", 1000)
    write_mnist(tmp_path, ".gz")
    with pytest.raises(TaskError, match="a file in it is far too large"):
        load("mnist", tmp_path)
    packed(tmp_path, CIFAR10, True, batches(CIFAR10))
    with pytest.raises(TaskError, match="a file in it is far too large"):
        load("cifar10", tmp_path)
