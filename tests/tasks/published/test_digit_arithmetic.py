import itertools

import numpy as np
import pytest
import torch
from scipy import stats

from eclose.signature import Signature
from eclose.tasks import fingerprint
from tests.tasks.published.pieces import check_sources, load, mnist_folder, origin, refused, sizes

CLASSES = {"addnist": 20, "multnist": 10}


def literal(name, r, g, b):
    return r + g + b - 1 if name == "addnist" else int(str(r * g * b)[-1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("data")
    return path, origin(mnist_folder(path))


def digits_of(split, known):
    """Origin and digit of all three channels of every image."""
    return [[known[channel.numpy().tobytes()] for channel in image] for image in split.all()[0]]


@pytest.mark.parametrize("name", CLASSES)
def test_classes_follow_from_the_digits(name, folder):
    path, known = folder
    task = load(name, path, train=600, val=200, test=100)
    assert task.signature == Signature("classification", 3, (3, 2), CLASSES[name])
    assert sizes(task) == {"train": 600, "val": 200, "test": 100}
    used = {}
    for part, split in task.splits.items():
        found = digits_of(split, known)
        assert [literal(name, *(digit for _, _, digit in image)) for image in found] == split.y.tolist()
        assert set(np.bincount(split.y)) == {len(split) // CLASSES[name]}
        used[part] = {(file, number) for image in found for file, number, _ in image}
    check_sources(used)


@pytest.mark.parametrize("name", CLASSES)
def test_all_digits_of_a_class_are_as_likely(name, folder):
    path, known = folder
    task = load(name, path, train=8000, val=1, test=1)
    drawn = {}
    for image, label in zip(digits_of(task.train, known), task.train.y.tolist(), strict=True):
        drawn.setdefault(label, []).append(tuple(digit for _, _, digit in image))
    possible = {}
    for triple in itertools.product(range(10), repeat=3):
        possible.setdefault(literal(name, *triple), []).append(triple)
    assert set(drawn) == set(range(CLASSES[name]))
    values = []
    for label, triples in drawn.items():
        counts = [triples.count(triple) for triple in possible[label]]
        assert sum(counts) == len(triples)
        values.append(stats.chisquare(counts).pvalue)
    assert stats.combine_pvalues(values).pvalue > 0.01


def test_every_image_of_a_digit_is_used(folder):
    path, known = folder
    task = load("multnist", path, train=4000, val=500, test=500)
    used = {part: {piece[:2] for image in digits_of(s, known) for piece in image} for part, s in task.splits.items()}
    assert len(used["test"]) == 60
    assert len(used["train"]) == 360
    assert len(used["val"]) == 40


@pytest.mark.parametrize("name", CLASSES)
def test_the_same_for_every_run(name, folder):
    path, _ = folder
    first, second = (load(name, path, train=50, val=20, test=20) for _ in range(2))
    assert fingerprint(first) == fingerprint(second)
    for part, split in first.splits.items():
        assert all(torch.equal(a, b) for a, b in zip(split.all(), second.splits[part].all(), strict=True))
    larger = fingerprint(load(name, path, train=60, val=20, test=20))
    assert larger["splits"]["test"] == fingerprint(first)["splits"]["test"]
    assert larger["splits"]["train"] != fingerprint(first)["splits"]["train"]


def test_refused(folder, tmp_path):
    path, _ = folder
    wanted = "task.train is 19, but must be at least 20: one sample of every class"
    assert refused("addnist", path, train=19) == wanted
    assert refused("multnist", path, test=0) == "task.test is 0, but must be at least 1"
    assert refused("addnist", tmp_path).startswith(f"there is no MNIST in {tmp_path}: put the four files ")
    mnist_folder(tmp_path, test=5)
    wanted = "images of MNIST for test: class 5 has 0, but must have at least 1: use all data"
    assert refused("addnist", tmp_path, train=20) == wanted
