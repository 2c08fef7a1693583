import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eclose.errors import TaskError
from eclose.signature import Signature
from eclose.tasks import Layout, Reading, input_tensor, task_from_arrays

N = 20
LABELS = np.arange(N) % 3


def values(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def signature(x, y, **reading):
    return task_from_arrays("mine", {"x": x, "y": y}, Reading(**reading)).signature


def refused(arrays, **reading):
    with pytest.raises(TaskError) as error:
        task_from_arrays("mine", arrays, Reading(**reading))
    assert "\n" not in str(error.value)
    return str(error.value)


# How shapes are read -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "channels", "space"),
    [
        ((8,), 1, (8,)),
        ((3, 8), 3, (8,)),  # unequal: channels first
        ((1, 8), 1, (8,)),
        ((8, 8), 1, (8, 8)),  # equal: all space
        ((1, 1), 1, (1, 1)),
        ((3, 8, 8), 3, (8, 8)),
        ((1, 8, 8), 1, (8, 8)),
        ((3, 8, 9), 3, (8, 9)),
        ((6, 6, 6), 1, (6, 6, 6)),
        ((2, 4, 5, 6), 2, (4, 5, 6)),
        ((4, 4, 4, 4), 4, (4, 4, 4)),
    ],
)
def test_channels_and_space(shape, channels, space):
    got = signature(values(N, *shape), LABELS)
    assert got == Signature("classification", channels, space, 3)


@pytest.mark.parametrize(
    ("shape", "axes", "channels", "space"),
    [
        ((3, 8), 2, 1, (3, 8)),
        ((8, 8), 1, 8, (8,)),
        ((3, 8, 9), 3, 1, (3, 8, 9)),
        ((6, 6, 6), 2, 6, (6, 6)),
    ],
)
def test_axes_override(shape, axes, channels, space):
    got = signature(values(N, *shape), LABELS, axes=axes)
    assert (got.channels, got.sizes) == (channels, space)


@pytest.mark.parametrize(
    ("x", "y", "wanted"),
    [
        # x without channels, y on the same points
        ((8,), (8,), Signature("dense", 1, (8,), 1)),
        ((8,), (4, 8), Signature("dense", 1, (8,), 4)),
        ((3, 8), (8,), Signature("dense", 3, (8,), 1)),
        ((3, 8), (2, 8), Signature("dense", 3, (8,), 2)),
        ((3, 8), (3, 8), Signature("dense", 3, (8,), 3)),  # both readings fit: the usual one
        ((4, 8), (1, 4, 8), Signature("dense", 1, (4, 8), 1)),  # only the image fits
        ((8, 8), (8, 8), Signature("dense", 1, (8, 8), 1)),
        ((8, 8), (5, 8, 8), Signature("dense", 1, (8, 8), 5)),
        ((8, 8), (8,), Signature("dense", 8, (8,), 1)),  # only the signal fits
        ((3, 8, 9), (8, 9), Signature("dense", 3, (8, 9), 1)),
        ((3, 8, 9), (1, 8, 9), Signature("dense", 3, (8, 9), 1)),
        ((3, 8, 9), (2, 3, 8, 9), Signature("dense", 1, (3, 8, 9), 2)),
        ((6, 6, 6), (6, 6, 6), Signature("dense", 1, (6, 6, 6), 1)),
        ((6, 6, 6), (6, 6), Signature("dense", 6, (6, 6), 1)),
        ((2, 4, 5, 6), (4, 5, 6), Signature("dense", 2, (4, 5, 6), 1)),
        ((2, 4, 5, 6), (3, 4, 5, 6), Signature("dense", 2, (4, 5, 6), 3)),
    ],
)
def test_dense(x, y, wanted):
    assert signature(values(N, *x), values(N, *y)) == wanted


@pytest.mark.parametrize(
    ("x", "y", "channels", "space"),
    [
        ((8,), (8,), 1, (8,)),
        ((3, 8), (8,), 3, (8,)),
        ((4, 8), (4, 8), 1, (4, 8)),
        ((8, 8), (8, 8), 1, (8, 8)),
        ((3, 8, 9), (8, 9), 3, (8, 9)),
        ((2, 4, 5, 6), (4, 5, 6), 2, (4, 5, 6)),
    ],
)
def test_segmentation(x, y, channels, space):
    labels = np.random.default_rng(0).integers(0, 5, (N, *y))
    labels[0].flat[0] = 4
    assert signature(values(N, *x), labels) == Signature("segmentation", channels, space, 5)


@pytest.mark.parametrize(
    ("y", "kind", "outputs"),
    [
        (LABELS, "classification", 3),
        (LABELS[:, None], "classification", 3),
        (LABELS.astype(np.uint8), "classification", 3),
        (LABELS > 0, "classification", 2),
        (values(N), "regression", 1),
        (values(N, 1), "regression", 1),
        (values(N, 5), "regression", 5),
        (LABELS.astype(np.float64), "regression", 1),
    ],
)
def test_pooled(y, kind, outputs):
    got = signature(values(N, 3, 8), y)
    assert (got.kind, got.outputs) == (kind, outputs)


@pytest.mark.parametrize(
    ("y", "kind", "outputs"),
    [
        (LABELS, "regression", 1),
        (LABELS.astype(np.float32), "classification", 3),
        (values(N, 8), "regression", 8),
        (np.tile(LABELS, (8, 1)).T, "regression", 8),
        (np.tile(LABELS, (8, 1)).T, "dense", 1),
        (np.zeros((N, 2, 8), dtype=int), "dense", 2),
        (np.tile(LABELS, (8, 1)).T.astype(np.float32), "segmentation", 3),
    ],
)
def test_kind_override(y, kind, outputs):
    got = signature(values(N, 3, 8), y, kind=kind)
    assert (got.kind, got.outputs, got.sizes) == (kind, outputs, (8,))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.lists(st.integers(1, 4), max_size=5),
    st.booleans(),
)
def test_what_was_understood_is_understood_again_when_said(x_shape, y_shape, whole):
    """A resumed run reads its data with the kind and axes that were found out before."""
    x = values(7, *x_shape)
    y = np.random.default_rng(1).integers(0, 3, (7, *y_shape)) if whole else values(7, *y_shape)
    try:
        task = task_from_arrays("mine", {"x": x, "y": y}, Reading())
    except TaskError:
        return
    got = task.signature
    again = task_from_arrays("mine", {"x": x, "y": y}, Reading(kind=got.kind, axes=got.axes))
    assert again.signature == got
    inputs, targets = task.train.all()
    n = len(task.train)
    assert inputs.shape == got.input_shape(n)
    if got.labels:
        assert targets.shape == ((n,) if got.pooled else (n, *got.sizes))
    else:
        assert targets.shape == got.output_shape(n)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_tokens(dtype):
    x = (np.arange(N * 9) % 50).reshape(N, 9).astype(dtype)
    got = signature(x, LABELS, tokens=True)
    assert got == Signature("classification", 1, (9,), 3, vocabulary=50)
    assert got.tokens
    assert signature(x, values(N, 9), tokens=True) == Signature("dense", 1, (9,), 1, vocabulary=50)
    assert signature(x, x % 4, tokens=True) == Signature("segmentation", 1, (9,), 4, vocabulary=50)
    assert signature(x, values(N, 2), tokens=True) == Signature("regression", 1, (9,), 2, vocabulary=50)
    task = task_from_arrays("mine", {"x": x, "y": LABELS}, Reading(tokens=True))
    inputs, _ = task.train.all()
    assert inputs.tolist() == x[task.train.rows.numpy()].tolist()


def test_the_vocabulary_covers_all_splits():
    arrays = {"x_train": np.zeros((5, 4), int), "y_train": np.arange(5) % 2}
    arrays |= {"x_val": np.ones((5, 4), int), "y_val": np.arange(5) % 2}
    arrays |= {"x_test": np.full((5, 4), 9), "y_test": np.arange(5) % 2}
    assert task_from_arrays("mine", arrays, Reading(tokens=True)).signature.vocabulary == 10


# Values --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype",
    ["?", "u1", "i1", "u2", ">u2", "i2", ">i2", "u4", "i4", "u8", "i8", "f2", ">f2", "f4", ">f4", "f8", "f16"],
)
def test_every_type_of_number_keeps_its_values(dtype):
    x = (np.arange(N * 8) % 2 if dtype == "?" else np.arange(N * 8) % 100).reshape(N, 8).astype(dtype)
    arrays = {"x_train": x, "y_train": LABELS, "x_val": x, "y_val": LABELS}
    task = task_from_arrays("mine", arrays, Reading())
    got, labels = task.train.all()
    np.testing.assert_array_equal(got[:, 0].double().numpy(), x.astype(np.float64))
    assert labels.tolist() == LABELS.tolist()
    np.testing.assert_allclose(task.scale.x_mean.numpy(), x.astype(np.float64).mean(), rtol=1e-6)
    y = x[:, :1].copy() if np.dtype(dtype).kind == "f" else x[:, 0].copy()
    task = task_from_arrays("mine", {"x": values(N, 8), "y": y}, Reading(kind="regression"))
    np.testing.assert_array_equal(
        task.train.all()[1].double().numpy()[:, 0], x[task.train.rows.numpy(), 0].astype(np.float64)
    )


def test_the_largest_unsigned_numbers():
    x = np.full((N, 8), 65535, dtype=np.uint16)
    task = task_from_arrays("mine", {"x": x, "y": LABELS}, Reading())
    assert int(task.train.all()[0].max()) == 65535
    x = np.full((N, 8), 2**32 - 1, dtype=np.uint32)
    assert int(task_from_arrays("mine", {"x": x, "y": LABELS}, Reading()).train.all()[0].max()) == 2**32 - 1
    x = np.full((N, 8), 2**63 - 1, dtype=np.uint64)
    assert int(task_from_arrays("mine", {"x": x, "y": LABELS}, Reading()).train.all()[0].max()) == 2**63 - 1
    text = "has values of 2**63 and more: store it as float64, or renumber it"
    x[3, 4] = 2**63
    assert refused({"x": x, "y": LABELS}) == f"'x' {text}"
    assert refused({"x": values(N, 8), "y": x[:, 4]}) == f"'y' {text}"


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[::-1],
        lambda a: np.asfortranarray(a),
        lambda a: np.broadcast_to(a[:1], a.shape),
        lambda a: a.tolist(),
        lambda a: torch.from_numpy(a.copy()),
        lambda a: torch.from_numpy(a.copy()).requires_grad_(),
        lambda a: np.rec.fromarrays([a[:, 0], a[:, 0].astype(np.int8)], names="a,b")["a"][:, None].repeat(8, 1),
    ],
)
def test_any_layout_in_memory(view):
    x = values(N, 8)
    arrays = {"x_train": view(x), "y_train": LABELS.tolist(), "x_val": view(x), "y_val": LABELS}
    task = task_from_arrays("mine", arrays, Reading())
    wanted = view(x)
    wanted = wanted.detach() if isinstance(wanted, torch.Tensor) else wanted
    np.testing.assert_array_equal(task.train.all()[0][:, 0].numpy(), np.asarray(wanted, dtype=np.float32))


def test_masked_values_are_refused():
    x = np.ma.masked_greater(values(20, 8), 1.0)
    wanted = "'x' has masked values: fill them (array.filled(0)), or leave those samples out"
    assert refused({"x": x, "y": values(20)}) == wanted
    assert signature(np.ma.masked_array(values(20, 8)), values(20)).kind == "regression"


def test_a_packed_field_is_copied():
    packed = np.zeros(N, dtype=[("flag", "i1"), ("value", "f4")])
    packed["value"] = np.arange(N)
    task = task_from_arrays("mine", {"x": values(N, 8), "y": packed["value"]}, Reading())
    assert sorted(task.train.all()[1].flatten().tolist()) == sorted(task.train.rows.tolist())


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint16, torch.uint32, torch.bfloat16, torch.float16])
def test_odd_tensors(dtype):
    x = (torch.arange(N * 8) % 2).view(N, 8).to(dtype)
    task = task_from_arrays("mine", {"x": x, "y": torch.arange(N) % 3 == 0}, Reading())
    assert task.signature == Signature("classification", 1, (8,), 2)
    assert torch.equal(task.train.all()[0].float(), (torch.arange(8) % 2).float().expand(len(task.train), 1, 8))


def test_values_are_not_copied_without_need():
    x = values(N, 8)
    task = task_from_arrays("mine", {"x": x, "y": LABELS}, Reading())
    assert np.shares_memory(task.train.x.numpy(), x)
    mask = x > 0
    assert np.shares_memory(task_from_arrays("mine", {"x": mask, "y": LABELS}, Reading()).train.x.numpy(), mask)


# Splits --------------------------------------------------------------------------------------------------------


def numbered(n, classes=3):
    """Samples that know their number."""
    return np.arange(n, dtype=np.float64)[:, None].repeat(4, 1), np.arange(n) % classes


def rows_of(split):
    return split.all()[0][:, 0, 0].long().tolist()


@pytest.mark.parametrize("n", [6, 7, 10, 101])
def test_x_and_y_are_split_once_and_for_all(n):
    x, y = numbered(n)
    task = task_from_arrays("mine", {"x": x, "y": y}, Reading())
    parts = {name: rows_of(split) for name, split in task.splits.items()}
    assert sorted(itertools.chain(*parts.values())) == list(range(n))
    assert all(parts.values())
    for name, split in task.splits.items():
        assert split.all()[1].tolist() == [row % 3 for row in parts[name]]
    again = task_from_arrays("other", {"x": x, "y": y}, Reading())
    assert {name: rows_of(split) for name, split in again.splits.items()} == parts
    assert task.about["samples"] == {name: len(rows) for name, rows in parts.items()}


def test_the_split_of_a_classification_has_all_classes_everywhere():
    x, _ = numbered(200)
    y = np.repeat([0, 1, 2, 3], [100, 60, 30, 10])
    task = task_from_arrays("mine", {"x": x, "y": y}, Reading())
    for name, share in (("train", 0.7), ("val", 0.15), ("test", 0.15)):
        counts = np.bincount(task.splits[name].all()[1], minlength=4)
        assert np.abs(counts - share * np.array([100, 60, 30, 10])).max() <= 1, name


@pytest.mark.parametrize("n", [6, 20, 100])
def test_train_alone_is_split_like_x(n):
    x, y = numbered(n)
    whole = task_from_arrays("mine", {"x": x, "y": y}, Reading())
    train = task_from_arrays("mine", {"x_train": x, "y_train": y}, Reading())
    assert {k: rows_of(s) for k, s in whole.splits.items()} == {k: rows_of(s) for k, s in train.splits.items()}


def test_validation_is_taken_from_training_and_never_from_test():
    x, y = numbered(100)
    arrays = {"x_train": x[:80], "y_train": y[:80], "x_test": x[80:], "y_test": y[80:]}
    task = task_from_arrays("mine", arrays, Reading())
    assert rows_of(task.test) == list(range(80, 100))
    assert sorted(rows_of(task.train) + rows_of(task.val)) == list(range(80))
    assert len(task.val) == 14  # 0.15 of 0.85


def test_given_splits_are_kept_in_order():
    x, y = numbered(30)
    arrays = {"x_train": x[:20], "y_train": y[:20], "x_val": x[20:], "y_val": y[20:]}
    task = task_from_arrays("mine", arrays, Reading())
    assert rows_of(task.train) == list(range(20))
    assert rows_of(task.val) == list(range(20, 30))
    assert task.test is None
    assert list(task.splits) == ["train", "val"]


def test_splits_may_come_with_and_without_a_channel_axis():
    arrays = {"x_train": values(9, 1, 6, 6), "y_train": np.arange(9) % 2}
    arrays |= {"x_val": values(4, 6, 6), "y_val": np.arange(4)[:, None] % 2}
    task = task_from_arrays("mine", arrays, Reading())
    assert task.val.all()[0].shape == (4, 1, 6, 6)
    assert task.val.all()[1].shape == (4,)


def test_one_sample_of_each_class():
    x, _ = numbered(20)
    says = "y has 20 classes and one sample of each, so that none is left to judge a network by: give several"
    assert refused({"x": x, "y": np.arange(20)}, kind="classification").startswith(says)
    x, _ = numbered(21)
    task_from_arrays("mine", {"x": x, "y": np.r_[np.arange(20), 0]}, Reading(kind="classification"))
    x, _ = numbered(20)  # what is given in parts is taken as it is
    parts = {f"{name}_{part}": v for part in ("train", "val") for name, v in (("x", x), ("y", np.arange(20)))}
    task_from_arrays("mine", parts, Reading(kind="classification"))


@pytest.mark.parametrize(
    ("n", "arrays", "parts", "needed"),
    [
        (1, ("x", "y"), "train, val, test", 6),
        (5, ("x", "y"), "train, val, test", 6),
        (5, ("x_train", "y_train"), "train, val, test", 6),
        (2, ("x_train", "y_train", "x_test", "y_test"), "train, val", 3),
    ],
)
def test_too_few_to_split(n, arrays, parts, needed):
    x, _ = numbered(n)
    y = np.linspace(0, 1, n)
    given_arrays = {name: x if name.startswith("x") else y for name in arrays}
    few = "1 sample is too few" if n == 1 else f"{n} samples are too few"
    assert refused(given_arrays) == f"{few} to split into {parts}: at least {needed} are needed"
    x, _ = numbered(needed)
    y = np.linspace(0, 1, needed)
    task_from_arrays("mine", {name: x if name.startswith("x") else y for name in arrays}, Reading())


def test_one_sample_a_split():
    x, y = numbered(1)
    arrays = {"x_train": x, "y_train": y + 0.5, "x_val": x, "y_val": y + 0.5}
    assert len(task_from_arrays("mine", arrays, Reading()).train) == 1


# What is refused -----------------------------------------------------------------------------------------------


X, Y = values(N, 8), LABELS
NO_X = "no array 'x' or 'x_train' (found: {}); name them x and y, as in np.savez(path, x=..., y=...)"


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({}, NO_X.format("none")),
        ({"data": X, "labels": Y}, NO_X.format("data, labels")),
        ({"x_test": X, "y_test": Y}, NO_X.format("x_test, y_test")),
        ({"x": X}, "'x' is there but 'y' is missing: give both or none"),
        ({"x_train": X}, "'x_train' is there but 'y_train' is missing: give both or none"),
        (
            {"x_train": X, "y": Y},
            "both 'x_train' and 'y' are there: give x, y (to be split), or x_train, y_train, x_val ...",
        ),
        ({"x_train": X, "y_train": Y, "x_val": X}, "'x_val' is there but 'y_val' is missing: give both or none"),
        ({"x_train": X, "y_train": Y, "y_test": Y}, "'y_test' is there but 'x_test' is missing: give both or none"),
        (
            {"x": X, "y": Y, "x_train": X, "y_train": Y},
            "both 'x' and 'x_train' are there: give x, y (to be split), or x_train, y_train, x_val ...",
        ),
        (
            {"x": X, "y": Y, "x_test": X, "y_test": Y},
            "both 'x' and 'x_test' are there: give x, y (to be split), or x_train, y_train, x_val ...",
        ),
    ],
)
def test_names(arrays, text):
    assert refused(arrays) == text


@pytest.mark.parametrize(
    ("x", "y", "text"),
    [
        (np.float32(3), Y, "'x' is a single number, not an array of samples"),
        (X, np.int64(3), "'y' is a single number, not an array of samples"),
        (X[:19], Y, "'x' has 19 samples, 'y' has 20: they must be as many"),
        (X[:0], Y[:0], "'x' is empty (shape (0, 8)): give at least one sample with values"),
        (X[:, :0], Y, "'x' is empty (shape (20, 0)): give at least one sample with values"),
        (X, np.zeros((N, 0)), "'y' is empty (shape (20, 0)): give at least one sample with values"),
        (
            X[:, 0],
            Y,
            "x has shape (20,): it must be (N, C, *space) or (N, *space), 1 to 3 space axes; give single "
            "numbers as (N, 1)",
        ),
        (
            values(N, 1, 1, 2, 2, 2),
            Y,
            "x has shape (20, 1, 1, 2, 2, 2): it must be (N, C, *space) or (N, *space), 1 to 3 space axes",
        ),
        (X + 1j, Y, "'x' is complex: stack real and imaginary parts as channels"),
        (torch.zeros(N, 8, dtype=torch.complex64), Y, "'x' is complex: stack real and imaginary parts as channels"),
        (np.array([[None]] * N), Y, "'x' is an object array: store a rectangular array of numbers"),
        ({"a": 3}, Y, "'x' is an object array: store a rectangular array of numbers"),
    ],
)
def test_bad_x(x, y, text):
    assert refused({"x": x, "y": y}) == text


@pytest.mark.parametrize(
    "array",
    [
        np.arange(N).astype("datetime64[D]"),
        np.arange(N).astype("timedelta64[s]"),
        np.zeros(N, dtype=[("a", "f4"), ("b", "i4")]),
        np.zeros(N, dtype="V4"),
    ],
)
def test_no_numbers(array):
    text = "not numbers: convert it"
    assert refused({"x": X, "y": array}) == f"'y' holds {array.dtype}, {text}"
    assert refused({"x": array, "y": Y}) == f"'x' holds {array.dtype}, {text}"


def test_ragged_lists():
    text = refused({"x": [[1.0], [1.0, 2.0]], "y": [0, 1]})
    assert text.startswith("'x' is not a rectangular array of numbers (setting an array element with a sequence")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "f16"])
def test_values_that_are_not_finite_are_found_by_sample(bad, dtype):
    x, y = values(N, 3, 8, dtype=dtype), values(N, dtype=dtype)
    x[13, 2, 7] = bad
    x[17, 0, 0] = bad
    assert refused({"x": x, "y": y}) == "'x' has NaN or infinite values, first in sample 13: remove or fill them"
    arrays = {"x_train": X, "y_train": y, "x_val": X[:5], "y_val": np.full(5, bad)}
    assert refused(arrays) == "'y_val' has NaN or infinite values, first in sample 0: remove or fill them"
    labels = LABELS.astype(dtype)
    labels[4] = bad
    text = refused({"x": X, "y": labels}, kind="classification")
    assert text == "'y' has NaN or infinite values, first in sample 4: remove or fill them"


def test_values_are_looked_at_in_blocks(monkeypatch):
    monkeypatch.setattr("eclose.tasks.splits._BLOCK", 100)
    x = values(N, 8)
    x[13] = np.nan
    assert "first in sample 13" in refused({"x": x, "y": Y})


def test_values_that_single_precision_cannot_hold():
    x = values(N, 8, dtype=np.float64)
    x[3] = 1e39
    assert refused({"x": x, "y": Y}) == "'x' has values too large for single precision, first in sample 3: rescale them"
    wide = x.astype(np.longdouble)
    wide[3] = np.longdouble("1e4000")
    assert "'x' has NaN or infinite values, first in sample 3" in refused({"x": wide, "y": Y})


@pytest.mark.parametrize(
    ("y", "reading", "text"),
    [
        (
            np.zeros(N, int),
            {},
            "'y' holds one class only (0): there is nothing to tell apart; look at the labels, "
            "or use --kind regression",
        ),
        (
            LABELS + 0.5,
            {"kind": "classification"},
            "'y' holds fractions, which are no class labels: use --kind regression (or dense)",
        ),
        (
            np.arange(N) * 1000,
            {},
            "'y' has 20 different labels in 20 values: if they are quantities use --kind regression, "
            "if they are labels --kind classification",
        ),
        (
            np.full(N, 1e30),
            {"kind": "classification"},
            f"'y' holds one class only ({2**62}): there is nothing to tell apart; look at the labels, "
            "or use --kind regression",
        ),
        (
            np.zeros((N, 8), int),
            {},
            "'y' holds one class only (0): there is nothing to tell apart; look at the labels, or use --kind dense",
        ),
        (
            np.arange(N * 8).reshape(N, 8),
            {},
            "'y' has 160 different labels in 160 values: if they are quantities use --kind dense, "
            "if they are labels --kind segmentation",
        ),
        (
            np.zeros((N, 5), int),
            {},
            "y of shape (20, 5) has 5 whole numbers a sample: --kind regression takes them as quantities, several "
            "labels a sample too; one label a sample is y of shape (N,)",
        ),
        (
            values(N, 5, 5),
            {},
            "y of shape (20, 5, 5) (torch.float32) fits no kind for x of shape (20, 8): (N,) is classification or "
            "regression, (N, k) floats are regression, space axes as in x are dense",
        ),
        (
            values(N, 5, 5),
            {"kind": "regression"},
            "'y' has shape (20, 5, 5), which does not fit regression: it must be (N,) or (N, k) values",
        ),
        (
            np.eye(5)[np.arange(N) % 5] / 2,
            {"kind": "classification"},
            "'y' has shape (20, 5), which does not fit classification: it must be (N,) labels, or (N, k) one-hot rows",
        ),
        (
            values(N),
            {"kind": "dense"},
            "--kind dense needs y with the space axes of x; x is (20, 8), y (20,)",
        ),
        (
            np.zeros((N, 2, 8), int),
            {"kind": "segmentation"},
            "--kind segmentation needs y with the space axes of x; x is (20, 8), y (20, 2, 8)",
        ),
        (
            Y,
            {"kind": "clustering"},
            "unknown kind 'clustering'; known: classification, regression, dense, segmentation",
        ),
        (Y, {"axes": 2}, "--axes 2 does not fit x of shape (20, 8): 1 would"),
        (Y, {"axes": -1}, "--axes -1 does not fit x of shape (20, 8): 1 would"),
    ],
)
def test_bad_y(y, reading, text):
    assert refused({"x": X, "y": y}, **reading) == text


def test_axes_that_do_not_fit():
    assert refused({"x": values(N, 3, 8), "y": Y}, axes=3) == (
        "--axes 3 does not fit x of shape (20, 3, 8): 1 or 2 would"
    )


@pytest.mark.parametrize(
    ("x_val", "y_val", "text"),
    [
        (values(4, 9), Y[:4], "samples of 'x_val' have shape (1, 9), those of 'x_train' (1, 8): they must be the same"),
        (
            values(4, 2, 8),
            Y[:4],
            "samples of 'x_val' have shape (2, 8), those of 'x_train' (1, 8): they must be the same",
        ),
        (values(4, 2, 2, 8), Y[:4], "'x_val' has shape (4, 2, 2, 8), but the training data has 1 space axes"),
        (X[:4], Y[:3], "'x_val' has 4 samples, 'y_val' has 3: they must be as many"),
        (
            X[:4],
            values(4, 2),
            "'y_val' has shape (4, 2), which does not fit classification: it must be (N,) labels, "
            "or (N, k) one-hot rows",
        ),
        (
            X[:4],
            np.array([0, 1, 2, 3]),
            "'y_val' has label 3, which 'y_train' does not have: every class must occur in training",
        ),
        (
            X[:4],
            np.array([0, -1, 2, 1]),
            "'y_val' has label -1, which 'y_train' does not have: every class must occur in training",
        ),
        (
            X[:4],
            np.full(4, 0.5),
            "'y_val' holds fractions, which are no class labels: use --kind regression (or dense)",
        ),
        (X[:0], Y[:0], "'x_val' is empty (shape (0, 8)): give at least one sample with values"),
    ],
)
def test_splits_that_do_not_fit_together(x_val, y_val, text):
    assert refused({"x_train": X, "y_train": Y, "x_val": x_val, "y_val": y_val}) == text


def test_targets_of_another_size():
    arrays = {"x_train": X, "y_train": values(N, 2), "x_val": X, "y_val": values(N, 3)}
    assert refused(arrays) == "samples of 'y_val' have shape (3,), those of 'y_train' (2,): they must be the same"


TOKENS = np.arange(N * 8).reshape(N, 8)


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (X, "--tokens needs integer x of shape (N, length), got torch.float32 (20, 8)"),
        (TOKENS[:, None], "--tokens needs integer x of shape (N, length), got torch.int64 (20, 1, 8)"),
        (TOKENS[:, 0], "--tokens needs integer x of shape (N, length), got torch.int64 (20,)"),
        (TOKENS - 1, "x has negative token numbers: tokens count from 0"),
        (TOKENS + 2**40, f"x has token numbers up to {2**40 + 159}: renumber them with np.unique"),
    ],
)
def test_bad_tokens(x, text):
    assert refused({"x": x, "y": Y}, tokens=True) == text


def test_bad_tokens_in_another_split():
    arrays = {"x_train": TOKENS, "y_train": Y, "x_val": TOKENS + 0.5, "y_val": Y}
    assert refused(arrays, tokens=True) == "'x_val' must hold token numbers (integers), got torch.float64"
    arrays["x_val"] = -TOKENS
    assert refused(arrays, tokens=True) == "x has negative token numbers: tokens count from 0"


# Prediction ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "shape"),
    [
        (Signature("classification", 1, (8,), 2), (5, 8)),
        (Signature("classification", 1, (8,), 2), (5, 1, 8)),
        (Signature("dense", 3, (4, 5), 2), (5, 3, 4, 5)),
        (Signature("dense", 1, (4, 5), 2), (1, 4, 5)),
    ],
)
def test_input_for_prediction(wanted, shape):
    x = values(*shape)
    got = input_tensor("x", x, wanted, Layout())
    assert got.shape == wanted.input_shape(shape[0])
    np.testing.assert_array_equal(got.numpy().reshape(shape), x)


def test_tokens_for_prediction():
    wanted = Signature("classification", 1, (8,), 2, vocabulary=160)
    for dtype in (np.uint8, np.uint16, np.int64):
        assert input_tensor("x", TOKENS.astype(dtype), wanted, Layout()).tolist() == TOKENS.tolist()


@pytest.mark.parametrize(
    ("x", "wanted", "text"),
    [
        (values(5, 9), Signature("dense", 1, (8,), 1), "x has samples of 9, the network takes 1 x 8"),
        (values(5, 8), Signature("dense", 3, (8,), 1), "x has samples of 8, the network takes 3 x 8"),
        (np.float32(3), Signature("dense", 1, (8,), 1), "x has samples of nothing, the network takes 1 x 8"),
        *(
            (one, wanted, "x is a single sample: samples lie along the first axis, so give x[None]")
            for one, wanted in (
                (values(8), Signature("dense", 1, (8,), 1)),
                (values(8, 8), Signature("dense", 1, (8, 8), 1)),
                (values(3, 8), Signature("dense", 3, (8,), 1)),
                (TOKENS[0], Signature("dense", 1, (8,), 1, 999)),
            )
        ),
        (values(0, 8), Signature("dense", 1, (8,), 1), "x is empty: there is nothing to predict"),
        (
            np.full((5, 8), np.nan),
            Signature("dense", 1, (8,), 1),
            "'x' has NaN or infinite values, first in sample 0: remove or fill them",
        ),
        (X, Signature("dense", 1, (8,), 1, 9), "'x' must hold token numbers (integers), got torch.float32"),
        (TOKENS, Signature("dense", 1, (8,), 1, 9), "x has tokens outside 0..8, the vocabulary of training"),
        (-TOKENS, Signature("dense", 1, (8,), 1, 999), "x has tokens outside 0..998, the vocabulary of training"),
        (TOKENS[:, :, None], Signature("dense", 1, (8,), 1, 9), "x has samples of 8 x 1, the network takes 8"),
    ],
)
def test_bad_input_for_prediction(x, wanted, text):
    with pytest.raises(TaskError) as error:
        input_tensor("x", x, wanted, Layout())
    assert str(error.value) == text
