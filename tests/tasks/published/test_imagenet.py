"""Images in folders: which serve for what, how they are cut, and what is said of folders that are wrong."""

import shutil
from collections import namedtuple

import numpy as np
import pytest
from PIL import Image

from eclose.tasks.published import imagenet
from tests.tasks.published.pieces import imagenet_folder, load, refused

SMALL = {"size": 16, "val": 2}


@pytest.fixture
def folder(tmp_path):
    imagenet_folder(tmp_path)
    return tmp_path


def test_the_last_of_every_class_validate_and_the_published_ones_test(folder):
    task = load("imagenet", folder, **SMALL)
    assert task.layout.classes == ("n01", "n02", "n03")
    assert task.train.all()[1].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert task.val.all()[1].tolist() == task.test.all()[1].tolist() == [0, 0, 1, 1, 2, 2]
    for split in task.splits.values():
        x, y = split.all()
        assert x.float().mean((2, 3)).argmax(1).tolist() == y.tolist()  # the colour of the class


def test_images_are_cut_around_the_middle(folder):
    values = np.zeros((16, 48, 3), np.uint8)
    values[:, 16:32] = 200
    place = folder / "imagenet" / "val" / "n01"
    shutil.rmtree(place)
    place.mkdir()
    Image.fromarray(values).save(place / "a.png")
    x = load("imagenet", folder, **SMALL).test.all()[0][0]
    assert x.shape == (3, 16, 16)
    assert (x == 200).all()


def test_grey_images_have_three_channels(folder):
    Image.fromarray(np.full((20, 20), 77, np.uint8)).save(folder / "imagenet" / "val" / "n01" / "n01_0.JPEG")
    assert (load("imagenet", folder, **SMALL).test.all()[0][0].float() - 77).abs().max() < 3


def test_they_are_decoded_once(folder, monkeypatch):
    decoded = []
    monkeypatch.setattr(
        imagenet, "_decode", lambda path, size, own=imagenet._decode: decoded.append(path) or own(path, size)
    )
    for size in (16, 16, 12):
        load("imagenet", folder, size=size, val=2)
    assert len(decoded) == 2 * 21


def test_fewer_images_of_every_class(folder):
    task = load("imagenet", folder, per_class=3, **SMALL)
    assert [len(split) for split in task.splits.values()] == [3, 6, 6]


def test_refusals(folder, tmp_path, monkeypatch):
    assert refused("imagenet", folder, size=16, val=5) == (
        f"{folder}/imagenet/train/n01 has 5 images, but task.val=5 of them validate"
    )
    assert refused("imagenet", folder, size=2) == (
        "task imagenet: size is 2 (8 or more), val 50 (1 or more), per_class 0 (0, or more than val)"
    )
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(2e6))
    told = refused("imagenet", folder, size=500, val=2)
    assert told.startswith("the decoded images need 0.0158 GB, but ")
    assert told.endswith(
        "has 0.002 GB left: lower task.size or task.per_class, or put the cache on another disk with $ECLOSE_CACHE"
    )
    monkeypatch.undo()
    (folder / "imagenet" / "val" / "n01" / "n01_0.JPEG").write_bytes(b"no image")
    told = refused("imagenet", folder, size=20, val=2)
    assert told.startswith(f"{folder}/imagenet/val/n01/n01_0.JPEG is not an image that Pillow can read (")
    shutil.rmtree(folder / "imagenet" / "val" / "n02")
    assert refused("imagenet", folder, **SMALL) == (
        f"{folder}/imagenet/val has no folder 'n02': both must have one folder for every class"
    )
