"""What is doubtful about a user's arrays is said with what was assumed; options settle it; the hopeless is refused."""

import numpy as np
import pytest

from eclose.errors import TaskError
from eclose.signature import Signature
from eclose.tasks import Layout, Reading, input_tensor, target_tensor, task_from_arrays

N = 60
RNG = np.random.default_rng(0)
LABELS = np.arange(N) % 3


def read(x, y=LABELS, **reading):
    return task_from_arrays("mine", {"x": x, "y": y}, Reading(**reading))


def noise(*shape):
    return RNG.normal(size=(N, *shape)).astype(np.float32)


def smooth(length):
    return np.cumsum(noise(length), axis=1)


def one_hot(classes, dtype=np.float32):
    return np.eye(classes, dtype=dtype)[np.arange(N) % classes]


# Where the channels are ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "channels", "space"),
    [((32, 32, 3), 3, (32, 32)), ((20, 16, 4), 4, (20, 16)), ((8, 8, 1), 1, (8, 8)), ((40, 1), 1, (40,))],
)
def test_channels_last_is_seen_and_said(shape, channels, space):
    x = noise(*shape)
    task = read(x)
    assert task.signature == Signature("classification", channels, space, 3)
    assert len(task.doubts) == 1
    assert task.doubts[0].startswith(
        f"x {x.shape} is read with its channels last, {channels} of them; --channels first"
    )
    np.testing.assert_array_equal(task.train.all()[0].numpy(), np.moveaxis(x, -1, 1)[task.train.rows.numpy()])
    assert read(x, channels="last").doubts == ()
    first = read(x, channels="first")
    assert (first.signature.channels, first.signature.sizes, first.doubts) == (shape[0], shape[1:], ())


def test_dense_targets_with_channels_last():
    x = noise(9, 8, 3)
    for y, outputs in ((x.mean(-1), 1), (np.stack([x.mean(-1)] * 2, -1), 2)):
        task = read(x, y)
        assert task.signature == Signature("dense", 3, (9, 8), outputs)
        inputs, targets = task.val.all()
        np.testing.assert_allclose(targets[:, 0], inputs.mean(1), atol=1e-6)
    assert read(x, x[:, 0]).signature == Signature("dense", 9, (8, 3), 1), "y has the axes of channels first"


def test_a_signal_that_may_have_its_channels_last():
    x = noise(100, 3)
    task = read(x)
    assert (task.signature.channels, task.signature.sizes) == (100, (3,))
    assert task.doubts == (
        "x (60, 100, 3) is read as 100 channels x 3 positions; "
        "if it has 3 channels, --channels last (--channels first confirms)",
    )
    last = read(x, channels="last")
    assert (last.signature.channels, last.signature.sizes, last.doubts) == (3, (100,), ())
    assert read(x, channels="first").doubts == ()


def test_images_that_may_be_signals():
    x = noise(28, 30)
    assert read(x).doubts == (
        "x (60, 28, 30) is read as 28 channels x 30 positions; if these are images, --axes 2 (--axes 1 confirms)",
    )
    assert read(x, axes=1).doubts == ()
    assert (
        read(x, axes=2).signature == read(x, channels="none").signature == Signature("classification", 1, (28, 30), 3)
    )


@pytest.mark.parametrize("x", [noise(12, 29), noise(3, 32, 32), noise(28, 28), noise(2, 16), smooth(40)])
def test_what_is_plain_raises_no_doubt(x):
    assert read(x).doubts == ()


def test_whole_numbers_may_be_tokens():
    x = np.random.default_rng(0).integers(0, 9, (60, 20))
    asked = "if its numbers stand for tokens, --tokens (--channels none confirms)"
    assert f"if it is a table, --channels columns; {asked}" in read(x).doubts[0]
    assert f"little in common; {asked}" in read(x, y=(x > 4).astype(int)).doubts[0], "a class for each is no table"
    assert read(x, tokens=True).doubts == ()
    assert "--tokens" not in read(x - 4).doubts[0], "tokens are numbered from 0"
    assert "--tokens" not in read(x / 2).doubts[0]


def test_a_table_of_columns():
    scales = 10.0 ** np.arange(5)
    for x in (noise(13), smooth(5) * scales):
        task = read(x)
        assert task.signature.sizes == x.shape[1:]
        assert task.doubts[0].startswith(f"x {x.shape} is read as a signal of {x.shape[1]} positions, but neighbours")
        assert "--channels columns (--channels none confirms)" in task.doubts[0]
        assert read(x, channels="none").doubts == ()
        table = read(x, channels="columns")
        assert table.signature == Signature("classification", x.shape[1], (1,), 3)
        assert table.doubts == ()
        rows = table.train.rows.numpy()
        np.testing.assert_allclose(table.scale.x_mean, x[rows].mean(0), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "reading", "text"),
    [
        (
            (8, 9),
            {"channels": "columns"},
            "--channels columns does not fit x of shape (60, 8, 9): first or last or none",
        ),
        ((9,), {"channels": "last"}, "--channels last does not fit x of shape (60, 9): none or columns would"),
        ((3, 4, 5, 6), {"channels": "none"}, "--channels none does not fit x of shape (60, 3, 4, 5, 6): first or last"),
        ((3, 8), {"channels": "last", "axes": 2}, "--axes 2 does not fit x of shape (60, 3, 8): 1 would"),
        ((3, 8), {"channels": "middle"}, "unknown channels 'middle'; known: first, last, none, columns"),
    ],
)
def test_channels_that_do_not_fit(shape, reading, text):
    with pytest.raises(TaskError) as error:
        read(noise(*shape), **reading)
    assert str(error.value).startswith(text)


@pytest.mark.parametrize(
    ("channels", "shape"), [("last", (9, 8, 3)), ("first", (3, 9, 8)), ("columns", (7,)), ("none", (9, 8))]
)
def test_predictions_take_what_training_took(channels, shape):
    x = noise(*shape)
    task = read(x, channels=channels)
    assert task.layout.channels == channels
    inputs = input_tensor("x", x, task.signature, task.layout)
    np.testing.assert_array_equal(inputs[task.train.rows].numpy(), task.train.all()[0].numpy())
    if channels == "columns":
        assert input_tensor("x", inputs, task.signature, task.layout).shape == inputs.shape, "as the network takes it"


def test_answers_in_another_way_than_in_training():
    task = read(noise(8))
    with pytest.raises(TaskError, match="'y' holds names as labels, the training data numbers: give both in one way"):
        target_tensor("y", NAMES[LABELS], task.signature, task.layout)


# What the labels are -------------------------------------------------------------------------------------------


def test_whole_floats_are_quantities_with_a_doubt():
    y = LABELS.astype(np.float64)
    task = read(noise(3, 8), y)
    assert task.signature.kind == "regression"
    assert task.doubts == (
        "y holds whole numbers as floats (0.0, 1.0, 2.0) and is read as quantities; "
        "if they are labels, --kind classification (--kind regression confirms)",
    )
    assert read(noise(3, 8), y, kind="regression").doubts == ()
    assert read(noise(3, 8), y, kind="classification").signature.outputs == 3
    mask = (noise(8, 8) > 0).astype(np.float32)
    assert "if they are labels, --kind segmentation" in read(noise(8, 8), mask).doubts[0]
    assert read(noise(3, 8), RNG.normal(size=N)).doubts == ()
    assert read(noise(3, 8), np.arange(N, dtype=float)).doubts == (), "as many numbers as samples count something"


@pytest.mark.parametrize("dtype", [np.float32, np.int64, bool])
def test_one_hot_rows_are_labels(dtype):
    y = one_hot(5, dtype)
    task = read(noise(3, 8), y)
    assert task.signature == Signature("classification", 3, (8,), 5)
    assert task.doubts[0].startswith("y (60, 5) has one-hot rows and is read as labels, class = column; --kind regres")
    assert task.train.all()[1].tolist() == (task.train.rows % 5).tolist()
    assert read(noise(3, 8), y, kind="classification").doubts == ()
    assert read(noise(3, 8), y.astype(float), kind="regression").signature.outputs == 5


def test_one_hot_rows_or_a_value_at_each_position():
    with pytest.raises(TaskError) as error:
        read(noise(3, 5), one_hot(5))
    assert str(error.value) == (
        "y of shape (60, 5) may be one-hot rows, or a value at each of the 5 positions of x: "
        "say --kind classification or --kind dense"
    )
    assert read(noise(3, 5), one_hot(5), kind="dense").signature.kind == "dense"
    assert read(noise(3, 5), one_hot(5), kind="classification").signature.outputs == 5


@pytest.mark.parametrize("labels", [(1, 2, 5), (-3, 10, 200), (0, 1, 3)])
def test_labels_with_gaps_keep_their_numbers(labels):
    y = np.array(labels)[LABELS]
    task = read(noise(3, 8), y)
    assert task.signature.outputs == 3
    assert task.layout.classes == labels
    assert task.train.all()[1].tolist() == (task.train.rows % 3).tolist()
    assert task.doubts == (
        f"'y' has labels with gaps ({', '.join(map(str, labels))}), read as 3 classes; "
        "if they are quantities, --kind regression (--kind classification confirms)",
    )
    assert read(noise(3, 8), y, kind="classification").doubts == ()
    points = y[:, None].repeat(8, 1)
    (doubt,) = read(noise(3, 8), points).doubts
    assert doubt.endswith("if they are quantities, --kind dense (--kind segmentation confirms)")
    assert read(noise(3, 8), points, kind="segmentation").doubts == ()
    assert read(noise(3, 8), points, kind="dense").signature.kind == "dense"


def test_labels_that_begin_elsewhere_are_no_doubt():
    task = read(noise(3, 8), LABELS + 1)
    assert (task.layout.classes, task.doubts) == ((1, 2, 3), ())
    assert read(noise(3, 8), 2 * (LABELS > 0) - 1).doubts == (), "-1 and 1"


def test_masks_of_any_two_values():
    mask = np.where(noise(8, 8) > 0, 255, 0).astype(np.uint8)
    task = read(noise(3, 8, 8), mask)
    assert task.signature == Signature("segmentation", 3, (8, 8), 2)
    assert task.layout.classes == (0, 255)
    np.testing.assert_array_equal(task.train.all()[1].numpy(), mask[task.train.rows.numpy()] // 255)
    assert task.train.y.element_size() == 1


def test_far_apart_labels_do_not_take_memory():
    y = np.array([0, 2**61, -(2**61)])[LABELS]
    assert read(noise(3, 8), y).layout.classes == (-(2**61), 0, 2**61)


# Names ---------------------------------------------------------------------------------------------------------

NAMES = np.array(["cat", "dog", "eel"])


@pytest.mark.parametrize(
    "y",
    [
        NAMES[LABELS],
        NAMES[LABELS].astype(object),
        NAMES[LABELS].tolist(),
        NAMES.astype("S")[LABELS],
        NAMES[LABELS][:, None],
        NAMES.astype(np.dtypes.StringDType())[LABELS] if hasattr(np.dtypes, "StringDType") else NAMES[LABELS],
    ],
)
def test_names_are_labels(y):
    task = read(noise(3, 8), y)
    assert task.signature.outputs == 3
    assert task.layout == Layout("first", ("cat", "dog", "eel"))
    assert task.train.all()[1].tolist() == (task.train.rows % 3).tolist()
    assert task.doubts == ()


@pytest.mark.parametrize(
    ("y", "reading", "text"),
    [
        (NAMES[LABELS], {"kind": "regression"}, "'y' holds names such as 'cat': --kind regression needs numbers"),
        (np.array(["cat"] * N), {}, "'y' holds one class only ('cat'): there is nothing to tell apart; look at"),
        (np.array([f"text {i}" for i in range(N)]), {}, "'y' has 60 different labels in 60 values: if they are quan"),
        (np.array(["cat", ""] * (N // 2)), {}, "'y' has an empty name as a label: name it, or leave those samples out"),
        (np.array(["cat", None] * (N // 2)), {}, "'y' holds text ('cat') beside other things: give labels in one way"),
        (np.array([b"\xff\xfe", b"a"] * (N // 2)), {}, "'y' holds bytes that are no text: decode them to strings firs"),
    ],
)
def test_bad_names(y, reading, text):
    with pytest.raises(TaskError) as error:
        read(noise(3, 8), y, **reading)
    assert str(error.value).startswith(text)
    assert "\n" not in str(error.value)


def test_names_in_other_splits():
    arrays = {"x_train": noise(8), "y_train": NAMES[LABELS], "x_val": noise(8)[:4]}
    task = task_from_arrays("mine", {**arrays, "y_val": ["eel", "eel", "cat", "dog"]}, Reading())
    assert task.val.all()[1].tolist() == [2, 2, 0, 1]
    for y_val, text in (
        (
            ["cat", "cow", "dog", "dog"],
            "'y_val' has the label 'cow', which 'y_train' does not have: every class must occur in training",
        ),
        ([0, 1, 2, 0], "'y_val' holds numbers as labels, 'y_train' names: give both in one way"),
    ):
        with pytest.raises(TaskError) as error:
            task_from_arrays("mine", {**arrays, "y_val": y_val}, Reading())
        assert str(error.value) == text
    with pytest.raises(TaskError, match="'y_val' holds text, but 'y_train' numbers: give all labels in one way"):
        task_from_arrays("mine", {**arrays, "y_train": LABELS, "y_val": NAMES[[0, 1, 2, 0]]}, Reading())


def test_numbers_as_objects():
    task = read(noise(3, 8), LABELS.astype(object))
    assert task.signature.outputs == 3
