"""CIFARTile (einspace paper, appendix B.2): how many kinds of things do four pictures show?"""

import itertools

import numpy as np
from numpy.typing import NDArray

from eclose.tasks.published.images import IMAGE_CLASSES, cifar10_images
from eclose.tasks.published.stock import Numbers, Stock, checked_sizes, compose, image_stocks
from eclose.tasks.source import Context, Source, named, tasks

# Which of up to four kinds the four pictures show, by class, before they are put in random places: two kinds twice
# each, as in the published set.
_KINDS = np.array([[0, 0, 0, 0], [0, 0, 1, 1], [0, 0, 1, 2], [0, 1, 2, 3]])


@tasks.register("cifartile")
def cifartile(context: Context, *, train: int = 45000, val: int = 15000, test: int = 10000) -> Source:
    """CIFARTile: four CIFAR-10 images in a 64 x 64 grid; how many classes they show, - 1. From CIFAR-10."""
    sizes = checked_sizes(len(_KINDS), train, val, test)
    stocks = image_stocks(cifar10_images(context), 4, "images of CIFAR-10")
    return Source(named(compose(sizes, len(_KINDS), stocks, _tiles)), IMAGE_CLASSES)


def _tiles(images: Stock, labels: Numbers, rng: np.random.Generator) -> NDArray[np.generic]:
    things = rng.permuted(np.tile(np.arange(10), (len(labels), 1)), axis=1)  # different ones come first
    kinds = rng.permuted(_KINDS[labels], axis=1)
    chosen = _different(images, np.take_along_axis(things, kinds, axis=1), rng)  # (n, 4)
    height, width = images.pieces.shape[2:]
    tiles = np.empty((len(labels), images.pieces.shape[1], 2 * height, 2 * width), images.pieces.dtype)
    for place, (i, j) in enumerate(itertools.product((0, 1), (0, 1))):
        part = tiles[:, :, i * height : (i + 1) * height, j * width : (j + 1) * width]
        part[...] = images.pieces[chosen[:, place]]
    return tiles


def _different(images: Stock, classes: Numbers, rng: np.random.Generator) -> Numbers:
    """Images of the classes of every row, none twice in a row: rows that repeat one are drawn again."""
    chosen = images.draw(classes, rng)
    while True:
        ordered = np.sort(chosen, axis=1)
        again = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(1))
        if not len(again):
            return chosen
        chosen[again] = images.draw(classes[again], rng)
