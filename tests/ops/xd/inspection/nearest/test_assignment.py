"""Linear assignment against scipy's."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from eclose.ops.xd.inspection.nearest.permutation import assignment


@pytest.mark.parametrize("size", [1, 2, 3, 7, 40, 120])
@pytest.mark.parametrize("kind", ["normal", "ties", "zeros", "permutation", "rank one"])
def test_the_sum_is_the_largest(size, kind):
    generator = np.random.default_rng(size)
    profit = generator.normal(size=(size, size))
    if kind == "ties":
        profit = np.round(profit)
    elif kind == "zeros":
        profit = 0 * profit
    elif kind == "permutation":
        profit = np.eye(size)[generator.permutation(size)] + 0.2 * profit
    elif kind == "rank one":
        profit = np.outer(profit[0], profit[-1])
    found = assignment(profit)
    assert sorted(found) == list(range(size))
    rows, columns = linear_sum_assignment(profit, maximize=True)
    assert profit[np.arange(size), found].sum() == pytest.approx(profit[rows, columns].sum(), abs=1e-9)
