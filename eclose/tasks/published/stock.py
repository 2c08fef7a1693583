"""Samples put together from a stock of labelled pieces (digits, pictures, words), the same ones for every run."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from eclose.errors import TaskError
from eclose.tasks.source import Pairs
from eclose.tasks.splits import divide

Numbers = NDArray[np.int64]
_SEED = 20240402
_SHARES = {"train": 0.9, "val": 0.1}  # of the training images, as pieces


def checked_sizes(classes: int, train: int, val: int, test: int) -> dict[str, int]:
    """Numbers of samples by part."""
    if train < classes:
        raise TaskError(f"task.train is {train}, but must be at least {classes}: one sample of every class")
    sizes = {"train": train, "val": val, "test": test}
    for part, size in sizes.items():
        if size < 1:
            raise TaskError(f"task.{part} is {size}, but must be at least 1")
    return sizes


class Stock:
    """Pieces by class; only those numbered ``rows`` are in use."""

    def __init__(self, pieces: NDArray[Any], labels: NDArray[Any], rows: Numbers | None = None) -> None:
        rows = np.arange(len(labels)) if rows is None else rows
        labels = labels[rows].astype(np.int64)
        self.pieces = pieces
        self.sizes = np.bincount(labels)
        self._rows = rows[np.argsort(labels, kind="stable")]
        self._starts = np.cumsum(self.sizes) - self.sizes

    def require(self, classes: int, least: int, what: str) -> "Stock":
        """The stock itself, if every class has at least ``least`` pieces."""
        sizes = np.zeros(classes, dtype=np.int64)
        sizes[: len(self.sizes)] = self.sizes[:classes]
        if sizes.min() < least:
            raise TaskError(
                f"{what}: class {sizes.argmin()} has {sizes.min()}, but must have at least {least}: use all data"
            )
        return self

    def draw(self, classes: Numbers, rng: np.random.Generator) -> Numbers:
        """The number of a random piece for every entry of ``classes``, with replacement."""
        return self._rows[self._starts[classes] + rng.integers(self.sizes[classes])]


def image_stocks(pairs: Pairs, least: int, what: str) -> dict[str, Stock]:
    """Images of ten classes by part: no image serves two parts, and test samples are made of test images."""
    x, y = pairs["train"]
    parts = divide(len(y), _SHARES, torch.from_numpy(y.astype(np.int64)))
    stocks = {part: Stock(x, y, rows.numpy()) for part, rows in parts.items()}
    stocks["test"] = Stock(*pairs["test"])
    return {part: stock.require(10, least, f"{what} for {part}") for part, stock in stocks.items()}


def compose(
    sizes: Mapping[str, int],
    classes: int,
    stocks: Mapping[str, Stock],
    sample: Callable[[Stock, Numbers, np.random.Generator], NDArray[Any]],
) -> Pairs:
    """``sizes[part]`` samples of each part, with all classes alike; ``sample`` makes them from their labels.

    Every part has random numbers of its own, so that the size of one changes nothing in the others.
    """
    pairs: Pairs = {}
    for number, (part, size) in enumerate(sizes.items()):
        rng = np.random.default_rng((_SEED, number))
        labels = rng.permutation(np.arange(size) % classes)
        pairs[part] = sample(stocks[part], labels, rng), labels
    return pairs
