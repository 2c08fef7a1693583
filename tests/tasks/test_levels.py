"""Samples of very different size: whether levels are chosen, and what they make of samples, against numpy."""

import numpy as np
import pytest
import torch

from eclose.errors import TaskError
from eclose.ops.standardise import Levelled
from eclose.signature import Signature
from eclose.spaces import assemble, unit_scale
from eclose.tasks import Reading, Split, task_from_arrays
from eclose.tasks.levels import levelled
from eclose.tasks.load import subset
from eclose.tasks.scale import measure_scale, standardise_of
from eclose.tasks.splits import Changed, join


def sizes(decades, count=400, channels=2, space=(16,), seed=0):
    """Samples about places of their own, as large as so many decades allow."""
    rng = np.random.default_rng(seed)
    each = 10 ** (decades * (rng.permutation(count) / (count - 1) - 0.5))
    x = rng.normal(size=(count, channels, *space)) * each.reshape(-1, *[1] * (1 + len(space)))
    return x + 3 * rng.normal(size=(count, channels, *[1] * len(space)))


def split_of(x, classes=3):
    return Split(torch.from_numpy(x), torch.arange(len(x)) % classes)


def signature_of(x, kind="classification"):
    return Signature(kind, x.shape[1], x.shape[2:], 3)


def scale_of(x, standardise=True):
    return measure_scale(split_of(x), signature_of(x), standardise)


def slowly(x, train):
    """What levels make of ``x``, sample by sample, with the numbers of ``train``."""
    std = train.std((0, *range(2, x.ndim)))
    std[std < 1e-9] = 1  # constant

    def place_and_level(sample):
        place = np.array([values.mean() for values in sample])
        shape = np.stack([(values - p) / s for values, p, s in zip(sample, place, std, strict=True)])
        return place / std, shape, np.sqrt((shape**2).mean())

    known = [place_and_level(sample) for sample in train]
    every = np.array([level for _, _, level in known])
    low, unit, high = np.quantile(every[every > 0], [0.1, 0.5, 0.9])
    power = min(1, np.log(10) / np.log(high / low))
    near = np.minimum(every, high)
    gain = 1 / np.sqrt(np.mean(near**2 * (near**2 + low**2) ** (power - 1)))
    places = np.array([place for place, _, _ in known])
    centre = np.sort(places, 0)[(len(places) - 1) // 2]
    units = np.maximum(unit, np.sort(abs(places - centre), 0)[(len(places) - 1) // 2])
    places = np.arcsinh((places - centre) / units)
    found = []
    for place, shape, level in map(place_and_level, x):
        moved = (np.arcsinh((place - centre) / units) - places.mean(0)) / np.maximum(1, places.std(0))
        louder = gain * (level**2 + low**2) ** ((power - 1) / 2)
        found.append(shape * louder + moved.reshape(-1, *[1] * (x.ndim - 2)))
    return np.stack(found)


@pytest.mark.parametrize("space", [(16,), (9,), (5, 3), (2, 3, 2)])
@pytest.mark.parametrize("channels", [1, 3])
def test_equal_to_numpy(space, channels):
    x, other = sizes(5, 60, channels, space), sizes(7, 20, channels, space, seed=1)
    scale = scale_of(x)
    module = Levelled(scale.x_mean, scale.x_std, scale.levels, len(space))
    for values in (x, other):
        got = module(torch.from_numpy(values)).numpy()
        np.testing.assert_allclose(got, slowly(values, x), rtol=2e-4, atol=2e-4)


def test_gradients_are_those_of_the_formula():
    x = sizes(4, 40, 2, (8,))
    scale = scale_of(x)
    module = Levelled(scale.x_mean, scale.x_std, scale.levels, 1).double()
    assert torch.autograd.gradcheck(module, torch.from_numpy(x[:3]).requires_grad_())


@pytest.mark.parametrize("decades", [3.0, 5.0, 7.0])
def test_sizes_come_near_and_shapes_stay(decades):
    x = sizes(decades)
    scale = scale_of(x)
    y = Levelled(scale.x_mean, scale.x_std, scale.levels, 1)(torch.from_numpy(x)).numpy()
    assert 0.5 < np.sqrt((y**2).mean()) < 2
    before, after = x - x.mean(2, keepdims=True), y - y.mean(2, keepdims=True)
    levels = np.sqrt((after**2).mean((1, 2)))
    low, high = np.quantile(levels, [0.1, 0.9])
    assert 5 < high / low < 10 * 2**0.5
    large = before.std((1, 2)) > 1e-4  # of which single precision leaves something beside their places
    spread = scale.x_std.numpy()[:, None]
    shapes = [values[large] / values[large].std((1, 2), keepdims=True) for values in (before / spread, after)]
    np.testing.assert_allclose(*shapes, atol=2e-2)


@pytest.mark.parametrize("length", [64, 5000])
def test_a_channel_far_from_zero_does_not_hide_small_samples(length):
    """The mean of a sample is rounded, in proportion to its distance from zero."""
    x = sizes(6.0, 60, 1, (length,)) - 3
    x = np.concatenate([x, np.full_like(x, 123456.789)], 1).astype(np.float32)
    scale = scale_of(x)
    y = Levelled(scale.x_mean, scale.x_std, scale.levels, 1)(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(y, slowly(x.astype(np.float64), x.astype(np.float64)), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("value", [1e20, 1e25, 1e30, 3e38])
def test_a_few_values_that_stand_for_none(value):
    """Beside them squares of all others are lost in single precision."""
    x = sizes(3.0, 400, 1)
    x[[5, 7], 0, 3] = value
    scale = scale_of(x)
    y = Levelled(scale.x_mean, scale.x_std, scale.levels, 1)(torch.from_numpy(x))
    assert y.isfinite().all()
    levels = y.std(2)[:, 0]
    assert 0.1 < levels.quantile(0.1) < levels.quantile(0.9) < 3
    y = Levelled(scale.x_mean, scale.x_std, scale.levels, 1)(torch.zeros(0, 1, 16))
    assert y.shape == (0, 1, 16)


@pytest.mark.parametrize("largest", [-3.0, -1.0])
def test_means_that_are_many_levels_apart_keep_their_distances(largest):
    """A logarithm of them would tell little but which are below the middle and which above."""
    rng = np.random.default_rng(0)
    means = np.sort(rng.uniform(1, 2, 300))
    x = means[:, None, None] + rng.normal(size=(300, 1, 16)) * 10 ** rng.uniform(-5, largest, (300, 1, 1))
    scale = scale_of(x, "levels")
    y = Levelled(scale.x_mean, scale.x_std, scale.levels, 1)(torch.from_numpy(x)).mean((1, 2)).numpy()
    assert np.corrcoef(means, y)[0, 1] > 0.97


def test_means_are_told_from_the_one_in_the_middle():
    """A few large ones carry that of all away from nearly every sample."""
    x = sizes(0.0, 400, 1) + 10 ** np.linspace(0, 8, 400)[:, None, None]
    scale = scale_of(x, "levels")
    y = Levelled(scale.x_mean, scale.x_std, scale.levels, 1)(torch.from_numpy(x)).mean((1, 2))
    assert y[300] - y[100] > 0.3
    assert y[399] < 10


def test_the_order_of_sizes_stays():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, 1, 64)) * 10.0 ** np.linspace(-4, 4, 50).reshape(-1, 1, 1)
    scale = scale_of(x)
    y = Levelled(scale.x_mean, scale.x_std, scale.levels, 1)(torch.from_numpy(x))
    levels = y.std(2)[:, 0]
    assert (levels.diff() > 0).all()


def test_chosen_where_classes_of_very_different_samples_are_told_apart():
    wide, narrow = sizes(3.0), sizes(1.5)
    assert scale_of(wide).levels is not None
    assert scale_of(narrow).levels is None
    assert scale_of(wide, "channels").levels is None
    assert scale_of(wide, False) is None
    assert scale_of(narrow, "levels").levels is not None
    for kind in ("regression", "segmentation", "dense"):
        split = Split(torch.from_numpy(wide), torch.zeros(len(wide), 3))
        if kind == "segmentation":
            split = Split(torch.from_numpy(wide), torch.zeros(len(wide), 16, dtype=torch.long))
        if kind == "dense":
            split = Split(torch.from_numpy(wide), torch.from_numpy(wide))
        assert measure_scale(split, signature_of(wide, kind), True).levels is None
        assert measure_scale(split, signature_of(wide, kind), "levels").levels is not None


def test_samples_of_few_points_have_no_size_of_their_own():
    table = sizes(6.0, space=(1,))
    assert scale_of(table).levels is None
    assert scale_of(sizes(6.0, space=(7,))).levels is None


def test_constant_samples_and_channels():
    x = sizes(5.0)
    x[::3] = 7.0
    x[:, 1] = 2.0
    scale = scale_of(x)
    assert scale.levels is not None
    y = Levelled(scale.x_mean, scale.x_std, scale.levels, 1)(torch.from_numpy(x))
    assert y.isfinite().all()
    assert y[:, 1].abs().max() == 0
    assert y[::3].std(2).max() < 1e-6
    rare = np.zeros((400, 1, 16))
    rare[::5] = sizes(8.0, 80, 1)
    assert scale_of(rare).levels is None, "most samples are constant"


@pytest.mark.parametrize("x", [np.full((20, 2, 9), 5.0), np.zeros((1, 1, 8)), np.eye(20)[:, None]])
def test_levels_of_samples_that_are_alike(x):
    scale = scale_of(x, "levels")
    y = Levelled(scale.x_mean, scale.x_std, scale.levels, 1)(torch.from_numpy(x))
    assert y.isfinite().all()
    assert scale.levels.power == 1


def test_tokens_have_no_levels():
    x = torch.randint(0, 9, (30, 12))
    split = Split(x, x[:, 0])
    assert measure_scale(split, Signature("classification", 1, (12,), 9, vocabulary=9), True).levels is None
    with pytest.raises(TaskError, match="task.standardise is 'levels', which is for numbers, and these are tokens"):
        measure_scale(split, Signature("classification", 1, (12,), 9, vocabulary=9), "levels")


def test_whole_numbers_and_single_precision():
    x = np.random.default_rng(0).poisson(10 ** np.linspace(0, 5, 200)[:, None, None], (200, 1, 32))
    scale = scale_of(x)
    module = Levelled(scale.x_mean, scale.x_std, scale.levels, 1)
    wanted = module.double()(torch.from_numpy(x).double()).float()
    module = module.float()
    for kind in (torch.int32, torch.float32, torch.int64):
        torch.testing.assert_close(module(torch.from_numpy(x).to(kind)), wanted, rtol=1e-4, atol=1e-4)


def test_the_user_is_told_and_the_setting_stays():
    x, y = sizes(6.0), np.arange(400) % 3
    task = task_from_arrays("mine", {"x": x, "y": y}, Reading(axes=1, channels="first"))
    (told,) = task.doubts
    assert told.startswith("large samples are about 70,000 times as large as small ones")
    for standardise, setting in ((True, "levels"), ("levels", "levels"), ("channels", "channels")):
        task = task_from_arrays("mine", {"x": x, "y": y}, Reading(axes=1, channels="first", standardise=standardise))
        assert standardise_of(task.scale) == setting
        assert bool(task.doubts) == (standardise is True)
        few = subset(task, 30, 10)
        assert standardise_of(few.scale) == setting
        assert few.scale.x_std[0] != task.scale.x_std[0]


def test_saved_weights_fill_every_part():
    x = sizes(6.0)
    scale, signature = scale_of(x), signature_of(x)
    saved = assemble(torch.nn.Identity(), signature, scale)
    weights = {name: torch.rand_like(value) + 0.5 for name, value in saved.state_dict().items()}
    empty = assemble(torch.nn.Identity(), signature, unit_scale(signature, True, weights))
    empty.load_state_dict(weights)
    for name, value in empty.state_dict().items():
        assert torch.equal(value, weights[name]), name


def test_a_levelled_task_is_what_networks_see():
    x, y = sizes(6.0), np.arange(400) % 3
    task = task_from_arrays("mine", {"x": x, "y": y}, Reading(axes=1, channels="first"))
    scale, seen = task.scale, levelled(task)
    module = Levelled(scale.x_mean, scale.x_std, scale.levels, 1)
    index = torch.tensor([5, 0, 9])
    for name, split in task.splits.items():
        assert len(seen.splits[name]) == len(split)
        torch.testing.assert_close(seen.splits[name].take(index)[0], module(split.take(index)[0]))
        assert torch.equal(seen.splits[name].take(index)[1], split.take(index)[1])
    some = seen.train.select(torch.tensor([7, 3]))
    assert len(some) == 2
    torch.testing.assert_close(some.all()[0], module(task.train.take(torch.tensor([7, 3]))[0]))
    both = Changed(task.train.x, task.train.y, before=join(task.train, task.val), change=lambda x: 2 * x)
    assert len(both) == len(task.train) + len(task.val)
    torch.testing.assert_close(both.take(torch.tensor([len(task.train)]))[0], 2 * task.val.take(torch.tensor([0]))[0])
    plain = task_from_arrays("mine", {"x": sizes(0.5), "y": y}, Reading(axes=1, channels="first"))
    assert levelled(plain) is plain
