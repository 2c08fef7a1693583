import numpy as np
import pytest
import torch
from scipy import stats

from eclose.config import TaskSection
from eclose.signature import Signature
from eclose.tasks import load_task
from tests.tasks.published.pieces import check_sources, cifar10_folder, load, origin, refused, sizes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("data")
    return path, origin(cifar10_folder(path))


def pictures_of(split, known):
    """Origin and class of the four pictures of every image: above left, above right, below left, below right."""
    x = split.all()[0].numpy()
    h, w = x.shape[2] // 2, x.shape[3] // 2
    quarters = [x[:, :, :h, :w], x[:, :, :h, w:], x[:, :, h:, :w], x[:, :, h:, w:]]
    return [[known[quarter[i].tobytes()] for quarter in quarters] for i in range(len(x))]


def test_classes_count_the_kinds_of_pictures(folder):
    path, known = folder
    task = load("cifartile", path, train=400, val=200, test=100)
    assert task.signature == Signature("classification", 3, (8, 4), 4)
    assert task.train.x.dtype == torch.uint8
    assert sizes(task) == {"train": 400, "val": 200, "test": 100}
    used = {}
    for part, split in task.splits.items():
        found = pictures_of(split, known)
        assert [len({kind for _, _, kind in image}) - 1 for image in found] == split.y.tolist()
        assert set(np.bincount(split.y)) == {len(split) // 4}
        used[part] = {(file, number) for image in found for file, number, _ in image}
    check_sources(used)


def test_no_picture_occurs_twice_in_an_image(folder):
    path, known = folder
    task = load("cifartile", path, train=4, val=400, test=400)  # of 5 pictures a class, so that repeats are likely
    for split in (task.val, task.test):
        assert all(len(set(image)) == 4 for image in pictures_of(split, known))


def test_kinds_and_places_are_random(folder):
    path, known = folder
    task = load("cifartile", path, train=4000, val=1, test=1)
    kinds = np.array([[kind for _, _, kind in image] for image in pictures_of(task.train, known)])
    y = task.train.y.numpy()
    for label in range(4):
        for place in range(4):
            assert stats.chisquare(np.bincount(kinds[y == label, place], minlength=10)).pvalue > 1e-3
    two = kinds[y == 1]
    assert all(np.unique(row, return_counts=True)[1].tolist() == [2, 2] for row in two)
    same = [(two[:, 0] == two[:, place]).sum() for place in (1, 2, 3)]
    assert sum(same) == len(two)
    assert stats.chisquare(same).pvalue > 0.01
    three = kinds[y == 2]
    pairs = [(three[:, a] == three[:, b]).sum() for a in range(4) for b in range(a)]
    assert sum(pairs) == len(three)
    assert stats.chisquare(pairs).pvalue > 0.01


def test_modifiers(folder):
    path, _ = folder
    section = TaskSection(name="cifartile", data_dir=str(path), options={"train": 40, "val": 20, "test": 20})
    whole = load_task(section, lambda done, total: None)
    changed = TaskSection(**{**vars(section), "permuted": True, "subset": 10, "subset_eval": 5})
    task = load_task(changed, lambda done, total: None)
    assert sizes(task) == {"train": 10, "val": 5, "test": 5}
    assert task.signature == whole.signature
    rows, columns = task.train.orders
    x = whole.train.x[task.train.rows][:, :, rows][:, :, :, columns]
    assert torch.equal(task.train.all()[0], x)
    assert torch.equal(task.train.all()[1], whole.train.y[task.train.rows])


def test_refused(folder, tmp_path):
    path, _ = folder
    wanted = "task.train is 3, but must be at least 4: one sample of every class"
    assert refused("cifartile", path, train=3) == wanted
    missing = refused("cifartile", tmp_path)
    assert missing.startswith(f"there is no CIFAR-10 in {tmp_path}: put cifar-10-python.tar.gz or ")
    cifar10_folder(tmp_path, test=30)
    wanted = "images of CIFAR-10 for test: class 0 has 3, but must have at least 4: use all data"
    assert refused("cifartile", tmp_path) == wanted
