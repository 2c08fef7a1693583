import numpy as np
import pytest
import torch

from eclose.errors import ConfigError
from eclose.tasks import Reading, task_from_arrays
from eclose.tasks.load import permuted, subset

SPACES = [(7,), (4, 5), (2, 3, 4)]


def task_of(space, kind="dense", n=40, tokens=False):
    rng = np.random.default_rng(0)
    if tokens:
        x = rng.integers(0, 50, (n, *space))
        return task_from_arrays("t", {"x": x, "y": rng.normal(size=(n, *space))}, Reading(tokens=True))
    x = rng.normal(size=(n, 3, *space))
    targets = {
        "dense": rng.normal(size=(n, 2, *space)),
        "segmentation": rng.integers(0, 4, (n, *space)),
        "classification": np.arange(n) % 4,
        "regression": rng.normal(size=(n, 2)),
    }
    return task_from_arrays("t", {"x": x, "y": targets[kind]}, Reading(kind=kind, axes=len(space)))


def restored(values, space, seed):
    """The inverse, from nothing but the seed."""
    generator = torch.Generator().manual_seed(seed)
    for axis, size in enumerate(space):
        order = torch.randperm(size, generator=generator)
        values = values.index_select(values.ndim - len(space) + axis, order.argsort())
    return values


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("kind", ["dense", "segmentation", "classification", "regression"])
def test_permuted_is_undone_by_its_seed_in_every_split(space, kind):
    task = task_of(space, kind)
    moved = permuted(task, 7)
    assert moved.signature == task.signature
    assert moved.about["permuted"] == 7
    for name, split in task.splits.items():
        x, y = split.all()
        moved_x, moved_y = moved.splits[name].all()
        assert not torch.equal(moved_x, x)
        assert torch.equal(restored(moved_x, space, 7), x)
        pooled = kind in ("classification", "regression")
        assert torch.equal(moved_y if pooled else restored(moved_y, space, 7), y)
        assert pooled or not torch.equal(moved_y, y)


@pytest.mark.parametrize("space", SPACES)
def test_permuted_keeps_rows_and_columns_together(space):
    """One order for each axis, not one for all pixels."""
    task = task_of(space)
    x, moved = task.train.all()[0], permuted(task, 1).train.all()[0]
    for axis in range(2, x.ndim):
        others = [a for a in range(x.ndim) if a != axis]
        sums, moved_sums = x.sum(others), moved.sum(others)
        torch.testing.assert_close(moved_sums.sort().values, sums.sort().values)


def test_permuted_depends_on_the_seed():
    task = task_of((50,))
    first, second, again = (permuted(task, seed).train.all()[0] for seed in (0, 1, 0))
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


def test_permuted_tokens():
    task = task_of((9,), tokens=True)
    x, y = task.val.all()
    moved_x, moved_y = permuted(task, 3).val.all()
    assert torch.equal(restored(moved_x, (9,), 3), x)
    assert torch.equal(restored(moved_y, (9,), 3), y)
    assert not torch.equal(moved_x, x)


@pytest.mark.parametrize("seed", [-1, 2**63, 2**70])
def test_seeds_out_of_range(seed):
    with pytest.raises(ConfigError) as error:
        permuted(task_of((4,)), seed)
    assert str(error.value) == f"task.permuted_seed is {seed}, but must lie between 0 and 2**63 - 1"


@pytest.mark.parametrize(
    ("train", "evaluation", "sizes"),
    [
        (0, 0, (28, 6, 6)),
        (5, 0, (5, 6, 6)),
        (0, 2, (28, 2, 2)),
        (28, 6, (28, 6, 6)),
        (1000, 1000, (28, 6, 6)),
        (27, 5, (27, 5, 5)),
    ],
)
def test_subset_sizes(train, evaluation, sizes):
    task = subset(task_of((7,)), train, evaluation)
    assert tuple(len(split) for split in task.splits.values()) == sizes
    assert task.about["samples"] == dict(zip(("train", "val", "test"), sizes, strict=True))


def test_subset_takes_samples_of_its_split_in_order_and_measures_again():
    task = task_of((7,))
    small = subset(task, 5, 2)
    for name, split in small.splits.items():
        rows = split.rows.tolist()
        assert rows == sorted(set(rows))
        assert set(rows) <= set(task.splits[name].rows.tolist())
    x, y = small.train.all()
    np.testing.assert_allclose(small.scale.x_mean, x.mean((0, 2)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(small.scale.y_std, y.std((0, 2), correction=0), rtol=1e-5)
    assert not torch.equal(small.scale.x_mean, task.scale.x_mean)
    again = subset(task, 5, 2)
    assert again.train.rows.tolist() == small.train.rows.tolist()


def test_subset_without_scale_or_test():
    rng = np.random.default_rng(0)
    arrays = {"x_train": rng.normal(size=(9, 4)), "y_train": np.arange(9) % 2}
    arrays |= {"x_val": rng.normal(size=(9, 4)), "y_val": np.arange(9) % 2}
    task = subset(task_from_arrays("t", arrays, Reading(standardise=False)), 3, 2)
    assert task.scale is None
    assert {name: len(split) for name, split in task.splits.items()} == {"train": 3, "val": 2}


def test_subset_of_permuted_equals_permuted_of_subset():
    task = task_of((4, 5))
    first, second = subset(permuted(task, 5), 6, 3), permuted(subset(task, 6, 3), 5)
    for name in task.splits:
        for a, b in zip(first.splits[name].all(), second.splits[name].all(), strict=True):
            assert torch.equal(a, b)


def test_the_scale_of_every_point_moves_with_it():
    rng = np.random.default_rng(0)
    arrays = {"x": rng.normal(size=(20, 1, 4, 5)) * np.arange(1, 6), "y": rng.normal(size=(20, 1, 4, 5))}
    task = task_from_arrays("t", arrays, Reading(kind="dense", axes=2, standardise="pointwise"))
    moved = permuted(task, 3)
    order = moved.train.orders
    assert torch.equal(moved.scale.x_std, task.scale.x_std[:, order[0]][:, :, order[1]])
    fewer = subset(task, 5, 2)
    x, _ = fewer.train.all()
    torch.testing.assert_close(fewer.scale.x_mean, x.mean(0).float())
