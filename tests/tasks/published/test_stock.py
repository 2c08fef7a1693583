import numpy as np
import pytest
from scipy import stats

from eclose.errors import TaskError
from eclose.tasks.published.stock import Stock, checked_sizes, compose, image_stocks

LABELS = np.array([2, 0, 2, 1, 0, 2, 2])


def rng(seed=0):
    return np.random.default_rng(seed)


def test_pieces_are_of_the_class_asked_for():
    classes = rng(1).integers(0, 3, (50, 4))
    drawn = Stock(LABELS, LABELS).draw(classes, rng())
    assert drawn.shape == (50, 4)
    np.testing.assert_array_equal(LABELS[drawn], classes)


def test_every_piece_of_a_class_is_as_likely():
    drawn = Stock(LABELS, LABELS).draw(np.full(4000, 2), rng())
    numbers, counts = np.unique(drawn, return_counts=True)
    assert numbers.tolist() == [0, 2, 5, 6]
    assert stats.chisquare(counts).pvalue > 0.01


def test_only_rows_in_use_are_drawn():
    drawn = Stock(LABELS, LABELS, np.array([6, 4, 3, 2])).draw(np.repeat([0, 1, 2], 100), rng())
    assert [set(drawn[i : i + 100].tolist()) for i in (0, 100, 200)] == [{4}, {3}, {2, 6}]


@pytest.mark.parametrize(
    ("classes", "least", "text"),
    [
        (3, 2, "things: class 1 has 1, but must have at least 2: use all data"),
        (4, 1, "things: class 3 has 0, but must have at least 1: use all data"),
    ],
)
def test_too_few_pieces(classes, least, text):
    stock = Stock(LABELS, LABELS)
    assert stock.require(3, 1, "things") is stock
    assert stock.require(1, 2, "things") is stock
    with pytest.raises(TaskError) as error:
        stock.require(classes, least, "things")
    assert str(error.value) == text


def test_image_stocks_divide_the_training_images_class_by_class():
    x, y = np.arange(200), rng().permutation(np.repeat(np.arange(10), 20))
    stocks = image_stocks({"train": (x, y), "test": (x + 1000, y)}, 2, "images")
    assert {part: stock.sizes.tolist() for part, stock in stocks.items()} == {
        "train": [18] * 10,
        "val": [2] * 10,
        "test": [20] * 10,
    }
    with pytest.raises(TaskError, match="images for val: class 0 has 2, but must have at least 3: use all data"):
        image_stocks({"train": (x, y), "test": (x, y)}, 3, "images")


def composed(**sizes):
    stocks = {part: Stock(LABELS, LABELS) for part in ("train", "val", "test")}
    return compose(sizes, 3, stocks, lambda stock, labels, rng: stock.draw(labels, rng))


def test_classes_are_alike_and_mixed():
    pairs = composed(train=3001, val=7, test=1)
    assert np.bincount(pairs["train"][1]).tolist() == [1001, 1000, 1000]
    assert np.bincount(pairs["val"][1]).tolist() == [3, 2, 2]
    assert len(pairs["test"][1]) == 1
    x, y = pairs["train"]
    np.testing.assert_array_equal(LABELS[x], y)
    assert abs(np.corrcoef(y[1:], y[:-1])[0, 1]) < 0.05


def test_a_part_does_not_depend_on_the_others():
    first, second = composed(train=30, val=9, test=8), composed(train=50, val=9, test=4)
    for i in (0, 1):
        np.testing.assert_array_equal(first["val"][i], second["val"][i])
    again = composed(train=30, val=9, test=8)
    for part, pair in first.items():
        for a, b in zip(pair, again[part], strict=True):
            np.testing.assert_array_equal(a, b)


def test_parts_are_drawn_apart():
    pairs = composed(train=300, val=300, test=300)
    assert (pairs["train"][1] != pairs["val"][1]).mean() > 0.5
    assert (pairs["test"][1] != pairs["val"][1]).mean() > 0.5


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((9, 1, 1), "task.train is 9, but must be at least 10: one sample of every class"),
        ((-1, 1, 1), "task.train is -1, but must be at least 10: one sample of every class"),
        ((10, 0, 1), "task.val is 0, but must be at least 1"),
        ((10, 1, -3), "task.test is -3, but must be at least 1"),
    ],
)
def test_sizes(given, text):
    assert checked_sizes(10, 10, 1, 1) == {"train": 10, "val": 1, "test": 1}
    with pytest.raises(TaskError) as error:
        checked_sizes(10, *given)
    assert str(error.value) == text
