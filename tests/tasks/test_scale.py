import numpy as np
import pytest
import torch

from eclose.errors import TaskError
from eclose.ops.standardise import Standardise, Unstandardise
from eclose.signature import Signature
from eclose.tasks import Split, splits
from eclose.tasks.scale import measure_scale
from eclose.tasks.splits import blocks


def split_of(x, y):
    return Split(torch.from_numpy(x), torch.from_numpy(y))


@pytest.mark.parametrize("block", [1, 300, 10**9])
@pytest.mark.parametrize("space", [(7,), (4, 5), (2, 3, 4)])
def test_equal_to_numpy_in_any_number_of_blocks(monkeypatch, block, space):
    monkeypatch.setattr(splits, "_BLOCK", block)
    rng = np.random.default_rng(0)
    x = rng.normal(3, 5, (31, 2, *space)) + 1000 * np.arange(2).reshape(1, 2, *[1] * len(space))
    y = rng.normal(-2, 0.1, (31, 3, *space))
    got = measure_scale(split_of(x, y), Signature("dense", 2, space, 3))
    axes = (0, *range(2, 2 + len(space)))
    np.testing.assert_allclose(got.x_mean, x.mean(axes), rtol=1e-6)
    np.testing.assert_allclose(got.x_std, x.std(axes), rtol=1e-6)
    np.testing.assert_allclose(got.y_mean, y.mean(axes), rtol=1e-6)
    np.testing.assert_allclose(got.y_std, y.std(axes), rtol=1e-6)
    assert {t.dtype for t in (got.x_mean, got.x_std, got.y_mean, got.y_std)} == {torch.float32}


def test_regression_by_output(monkeypatch):
    monkeypatch.setattr(splits, "_BLOCK", 64)
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 255, (40, 3, 6), dtype=np.uint8), rng.normal(size=(40, 2)) * [1, 100]
    got = measure_scale(split_of(x, y), Signature("regression", 3, (6,), 2))
    np.testing.assert_allclose(got.x_std, x.astype(float).std((0, 2)), rtol=1e-6)
    np.testing.assert_allclose(got.y_std, y.std(0), rtol=1e-6)


def test_only_the_selected_samples_count():
    x = np.arange(20.0).reshape(10, 1, 2)
    split = split_of(x, x[:, 0, :1]).select(torch.tensor([1, 5]))
    got = measure_scale(split, Signature("regression", 1, (2,), 1))
    np.testing.assert_allclose(got.x_mean, x[[1, 5]].mean())
    np.testing.assert_allclose(got.y_mean, x[[1, 5], 0, 0].mean())


@pytest.mark.parametrize("kind", ["classification", "segmentation"])
def test_labels_and_tokens_have_no_scale(kind):
    x = np.arange(40).reshape(10, 4)
    y = x if kind == "segmentation" else x[:, 0]
    got = measure_scale(split_of(x, y), Signature(kind, 1, (4,), 40, vocabulary=40))
    assert (got.x_mean.item(), got.x_std.item(), got.y_mean.item(), got.y_std.item()) == (0.0, 1.0, 0.0, 1.0)


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e9 + 0.1, -3e-20, 1e-45, 7.0])
@pytest.mark.parametrize("block", [1, 10**9])
def test_a_constant_channel_is_left_alone(monkeypatch, constant, block):
    monkeypatch.setattr(splits, "_BLOCK", block)
    x = np.random.default_rng(0).normal(size=(37, 2, 11))
    x[:, 1] = constant
    got = measure_scale(split_of(x, x), Signature("dense", 2, (11,), 2))
    assert got.x_std[1] == 1.0
    np.testing.assert_allclose(got.x_std[0], x[:, 0].std(), rtol=1e-6)
    out = Standardise(got.x_mean, got.x_std, 1)(torch.from_numpy(x))
    assert out.isfinite().all()
    assert out[:, 1].abs().max() == 0


def test_one_constant_sample():
    x = np.full((1, 1, 4), 5.0)
    got = measure_scale(split_of(x, x), Signature("dense", 1, (4,), 1))
    assert (got.x_mean.item(), got.x_std.item()) == (5.0, 1.0)


@pytest.mark.parametrize("size", [1e-50, 1e-42])
def test_a_spread_that_single_precision_cannot_hold_is_none_beside_others(size):
    x = np.random.default_rng(0).normal(size=(20, 2, 4)) * np.array([1, size])[:, None]
    got = measure_scale(split_of(x, x), Signature("dense", 2, (4,), 2))
    assert got.x_std[1] == 1.0
    out = Standardise(got.x_mean, got.x_std, 1)(torch.from_numpy(x))
    assert out.isfinite().all()


@pytest.mark.parametrize("size", [1e-50, 1e-42])
def test_data_of_which_single_precision_sees_nothing_is_refused(size):
    x = np.random.default_rng(0).normal(size=(20, 2, 4))
    x[:, 1] = 0
    tiny = r"has a spread of \d\S*, which single precision cannot tell from none: give it in other units"
    for name, split in (("x", split_of(x * size, x)), ("y", split_of(x, x * size))):
        with pytest.raises(TaskError, match=f"^{name} {tiny}$"):
            measure_scale(split, Signature("dense", 2, (4,), 2))


def test_small_spreads_are_kept():
    x = 5 + 1e-4 * np.random.default_rng(0).normal(size=(200, 1, 4))
    got = measure_scale(split_of(x, x * 1e-30), Signature("dense", 1, (4,), 1))
    np.testing.assert_allclose(got.x_std[0], x.std(), rtol=1e-6)
    np.testing.assert_allclose(got.y_std[0], x.std() * 1e-30, rtol=1e-6)


def test_a_spread_that_single_precision_would_lose_is_refused():
    x = 1e9 + np.random.default_rng(0).normal(size=(200, 1, 4))
    with pytest.raises(TaskError, match=r"x has mean 1e\+09 and spread .* in channel 0, .*: subtract an offset first"):
        measure_scale(split_of(x, x), Signature("dense", 1, (4,), 1))


def test_blocks_cover_all_samples(monkeypatch):
    split = split_of(np.zeros((10, 3, 4), dtype=np.float32), np.zeros((10, 2), dtype=np.float32))
    assert split.bytes == 10 * (48 + 8)
    monkeypatch.setattr(splits, "_BLOCK", 3 * 56)
    assert [len(index) for index in blocks(split)] == [3, 3, 3, 1]
    assert torch.cat(blocks(split)).tolist() == list(range(10))
    monkeypatch.setattr(splits, "_BLOCK", 1)
    assert [len(index) for index in blocks(split)] == [1] * 10


def test_round_trip_with_the_scale_of_data():
    x = np.random.default_rng(0).normal(3, 50, (20, 2, 8)).astype(np.float32)
    got = measure_scale(split_of(x, x), Signature("dense", 2, (8,), 2))
    there = Standardise(got.x_mean, got.x_std, 1)
    back = Unstandardise(got.y_mean, got.y_std, 1)
    inner = there(torch.from_numpy(x))
    torch.testing.assert_close(inner.mean((0, 2)), torch.zeros(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(inner.std((0, 2), correction=0), torch.ones(2))
    torch.testing.assert_close(back(inner), torch.from_numpy(x))


@pytest.mark.parametrize("block", [300, 10**9])
@pytest.mark.parametrize("space", [(7,), (4, 5)])
def test_every_point_by_itself(monkeypatch, block, space):
    """What a boundary holds fast comes back as it is, and costs no division by zero."""
    monkeypatch.setattr(splits, "_BLOCK", block)
    rng = np.random.default_rng(0)
    x = rng.normal(3, 5, (31, 2, *space)) + 10 * rng.normal(size=(1, 2, *space))
    y = rng.normal(-2, 0.1, (31, 1, *space)) * np.arange(space[-1])
    signature = Signature("dense", 2, space, 1)
    got = measure_scale(split_of(x, y), signature, "pointwise")
    assert got.pointwise
    for values, mean, std in ((x, got.x_mean, got.x_std), (y, got.y_mean, got.y_std)):
        whole = values.std((0, *range(2, values.ndim)), keepdims=True)[0]
        np.testing.assert_allclose(mean, values.mean(0), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(std, values.std(0) + 1e-3 * whole, rtol=1e-5)
    assert float(got.y_std[..., 0].max()) < 0.02 * float(got.y_std.max())
    there, back = (kind(got.y_mean, got.y_std, len(space)) for kind in (Standardise, Unstandardise))
    values = torch.from_numpy(y).float()
    torch.testing.assert_close(back(there(values)), values)
    assert measure_scale(split_of(x, y), signature, False) is None


def test_only_fields_on_a_grid_have_a_scale_by_point():
    x, y = np.zeros((4, 1, 5)), np.arange(4) % 2
    with pytest.raises(TaskError, match="which is for fields on a grid .* and this is a classification task"):
        measure_scale(split_of(x, y), Signature("classification", 1, (5,), 2), "pointwise")
