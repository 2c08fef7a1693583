import io
import tarfile

import numpy as np
import pytest
import torch

from tests.tasks.published.pieces import imdb_folder, load, refused, sizes


def texts_of(split):
    return [bytes(row.tolist()).rstrip(b"\0") for row in split.all()[0]]


def test_tokens_are_the_first_bytes(tmp_path):
    texts = imdb_folder(tmp_path)
    task = load("imdb", tmp_path, length=12, val=0)
    assert texts_of(task.train) == [text[:12] for text in texts["train"]]
    assert task.train.all()[1].tolist() == [0] * 20 + [1] * 20
    assert torch.equal(task.val.all()[0], task.test.all()[0])  # as papers did
    assert max(map(len, texts["train"])) > 12 > min(map(len, texts["train"]))


def test_validation_takes_as_many_of_both_classes(tmp_path):
    texts = imdb_folder(tmp_path)
    task = load("imdb", tmp_path, val=10)
    assert sizes(task) == {"train": 30, "val": 10, "test": 20}
    assert task.val.all()[1].tolist() == [0] * 5 + [1] * 5
    assert sorted(texts_of(task.train) + texts_of(task.val)) == sorted(texts["train"])
    assert texts_of(task.test) == texts["test"]


REVIEWS = {
    "train/neg/1_2.txt": b"weak",
    "train/neg/0_3.txt": b"bad",
    "train/pos/0_9.txt": "très bon".encode(),
    "train/unsup/0_0.txt": b"nobody knows",
    "test/neg/0_1.txt": b"worse",
    "test/pos/0_8.txt": b"fine",
    "README": b"about",
}


def unpacked(folder):
    for name, text in REVIEWS.items():
        path = folder / "aclImdb" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)


def packed(folder):
    with tarfile.open(folder / "aclImdb_v1.tar.gz", "w:gz") as archive:
        for name, text in REVIEWS.items():
            member = tarfile.TarInfo(f"aclImdb/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))


@pytest.mark.parametrize("form", [packed, unpacked])
def test_the_published_archive(tmp_path, form):
    form(tmp_path)
    task = load("imdb", tmp_path, length=9, val=0)
    assert texts_of(task.train) == [b"bad", b"weak", "très bon".encode()]
    assert task.train.all()[1].tolist() == [0, 0, 1]
    assert texts_of(task.test) == [b"worse", b"fine"]
    assert task.signature.vocabulary == 0xC3 + 1  # the first byte of an accented letter


def test_what_is_refused(tmp_path):
    assert refused("imdb", tmp_path) == (
        f"there is no IMDB in {tmp_path}: put aclImdb_v1.tar.gz there, packed or not, "
        "or name another folder with --data-dir or $ECLOSE_DATA"
    )
    imdb_folder(tmp_path)
    assert refused("imdb", tmp_path, length=0) == "task.length is 0, but must lie between 1 and 65536"
    assert refused("imdb", tmp_path, val=40) == "task.val is 40, but must lie between 0 and 39"
    path = tmp_path / "imdb" / "imdb_test.npz"
    broken = {**np.load(path), "offsets": np.array([0, 5])}
    np.savez(path, **broken)
    wanted = f"{path}: offsets, text and labels do not fit together: it is another file than the task needs"
    assert refused("imdb", tmp_path) == wanted
    path.unlink()
    assert refused("imdb", tmp_path).startswith(f"{path} is missing: put imdb/imdb_test.npz (arrays text, offsets and")


def test_damaged_archives(tmp_path):
    path = tmp_path / "aclImdb_v1.tar.gz"
    path.write_bytes(b"\x1f\x8b nothing")
    assert refused("imdb", tmp_path).startswith(f"{path} is not a readable part of IMDB (")
    path.unlink()
    unpacked(tmp_path)
    (tmp_path / "aclImdb" / "test" / "neg" / "0_1.txt").unlink()
    assert refused("imdb", tmp_path) == f"{tmp_path / 'aclImdb'} has no texts in test/neg: it is not all of IMDB"
