"""AddNIST and MultNIST (einspace paper, appendix B.2): arithmetic with the three digits of a colour image.

Every channel is an image of MNIST. All digits that lead to a class are as likely, and classes are alike, as in the
published sets (Geada et al., "Insights from the Use of Previously Unseen Neural Architecture Search Datasets").
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from eclose.tasks.published.images import IMAGE_CLASSES, mnist_images
from eclose.tasks.published.stock import Numbers, Stock, checked_sizes, compose, image_stocks
from eclose.tasks.source import Context, Source, named, tasks


@tasks.register("addnist")
def addnist(context: Context, *, train: int = 45000, val: int = 15000, test: int = 10000) -> Source:
    """AddNIST: three MNIST digits as colours, 28 x 28; the class is their sum - 1, below 20. From MNIST."""
    sizes = checked_sizes(20, train, val, test)
    return _source(context, sizes, 20, lambda digits: digits.sum(1) - 1)


@tasks.register("multnist")
def multnist(context: Context, *, train: int = 50000, val: int = 10000, test: int = 10000) -> Source:
    """MultNIST: three MNIST digits as colours, 28 x 28; the class is their product mod 10. From MNIST."""
    sizes = checked_sizes(10, train, val, test)
    return _source(context, sizes, 10, lambda digits: digits.prod(1) % 10)


def _source(context: Context, sizes: dict[str, int], classes: int, rule: Callable[[Numbers], Numbers]) -> Source:
    triples = np.indices((10, 10, 10)).reshape(3, -1).T  # (1000, 3)
    results = rule(triples)
    of_class = Stock(triples, results, np.flatnonzero((results >= 0) & (results < classes)))

    def sample(images: Stock, labels: Numbers, rng: np.random.Generator) -> NDArray[np.generic]:
        digits = triples[of_class.draw(labels, rng)]
        return images.pieces[images.draw(digits, rng)]  # (n, 3, 28, 28)

    stocks = image_stocks(mnist_images(context), 1, "images of MNIST")
    return Source(named(compose(sizes, classes, stocks, sample)), IMAGE_CLASSES)
