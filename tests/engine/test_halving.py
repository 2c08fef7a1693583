"""Rungs and who passes them."""

import math
import random

import pytest

from eclose.engine.halving import best_until, passes, rungs, verdict
from tests.engine.rows import curve


@pytest.mark.parametrize(
    ("epochs", "eta", "every", "wanted"),
    [
        (30, 3, 1, [3, 10]),
        (81, 3, 1, [9, 27]),
        (8, 3, 1, [2]),
        (8, 2, 1, [2, 4]),
        (2, 3, 1, []),
        (1, 2, 1, []),
        (30, 3, 4, [4, 12]),
        (30, 3, 10, [10]),
        (30, 3, 30, []),
    ],
)
def test_rungs(epochs: int, eta: int, every: int, wanted: list[int]) -> None:
    assert rungs(epochs, eta, every) == wanted


def test_passing_is_being_among_the_best_share() -> None:
    for seed in range(50):
        rng = random.Random(seed)
        values = [rng.random() for _ in range(rng.randrange(1, 30))]
        best = sorted(values)[: max(1, len(values) // 3)] if len(values) >= 3 else values
        for place, value in enumerate(values):
            others = values[:place] + values[place + 1 :]
            assert passes(value, others, "min", 3) == (value in best)
            assert passes(-value, [-other for other in others], "max", 3) == (value in best)


def test_ties_pass_and_what_is_no_number_does_not() -> None:
    assert passes(0.5, [0.5] * 20, "min", 3)
    assert not passes(math.nan, [0.5] * 20, "min", 3)
    assert passes(0.5, [math.nan] * 20, "min", 3)


def test_the_verdict_compares_the_best_values_until_there() -> None:
    others = [curve(0.9, 0.5, 0.4), curve(0.8, 0.6), curve(0.7, 0.6, 0.1), curve(0.2), []]
    assert verdict(curve(0.95, 0.55), others, "min", 3).startswith("stopped after epoch 2: not among the best 1/3")
    assert "of 4 trials" in verdict(curve(0.95, 0.55), others, "min", 3), "two of them did not come as far"
    assert verdict(curve(0.3, 0.99), others, "min", 3) == ""
    assert verdict(curve(0.95, 0.55), others, "max", 3) == ""


def test_values_that_were_not_measured() -> None:
    assert best_until(curve(None, 0.4, None, 0.2), 3, "min") == 0.4
    assert best_until(curve(None, 0.4, None, 0.2), 1, "min") is None
    assert verdict(curve(None), [curve(0.1)] * 5, "min", 3) == ""
