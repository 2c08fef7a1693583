"""Rank correlation against scipy, and over which trials it is taken."""

import numpy as np
import pytest
import scipy.stats

from eclose.engine.prefilter import joint_ranks, rank_correlation, ranks, spearman
from tests.engine.rows import row


@pytest.mark.parametrize("seed", range(5))
def test_against_scipy_with_ties(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, 6, 23).astype(float), rng.normal(size=23).round(1)
    assert ranks(list(first)).tolist() == scipy.stats.rankdata(first).tolist()
    assert spearman(list(first), list(second)) == pytest.approx(scipy.stats.spearmanr(first, second).statistic)


def test_where_there_is_none() -> None:
    assert spearman([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]) is None
    assert spearman([1.0], [2.0]) is None
    assert spearman([], []) is None


def test_a_score_that_failed_is_the_lowest_and_both_is_the_mean_rank() -> None:
    scores = [{"gradient": -9.0, "kernel": 4.0}, {"gradient": None, "kernel": 7.0}, {"gradient": 2.0, "kernel": None}]
    found = joint_ranks(scores)
    assert found["gradient"].tolist() == [2, 1, 3]
    assert found["kernel"].tolist() == [2, 3, 1]
    assert found["both"].tolist() == [2, 2, 2]


def test_over_trials_that_trained_to_an_end() -> None:
    rng = np.random.default_rng(0)
    known = [{"gradient": float(g), "kernel": float(k)} for g, k in rng.normal(size=(9, 2))]
    values = rng.normal(size=9)
    trials = [row(n, float(v), scores=s) for n, (v, s) in enumerate(zip(values, known, strict=True))]
    others = [
        row(9, 5.0, scores={"gradient": 8.0, "kernel": 8.0}, reason="stopped after epoch 1"),
        row(10, state="failed", scores={"gradient": 8.0, "kernel": 8.0}),
        row(11, scores={"gradient": 8.0, "kernel": 8.0}),
        row(12, 7.0),
    ]
    for goal, sign in (("max", 1), ("min", -1)):
        found = rank_correlation([*trials, *others], goal)
        assert found["trials"] == 9
        gradient, kernel = ([s[name] for s in known] for name in ("gradient", "kernel"))
        both = scipy.stats.rankdata(gradient) + scipy.stats.rankdata(kernel)
        for name, by in {"gradient": gradient, "kernel": kernel, "both": both}.items():
            assert found[name] == pytest.approx(sign * scipy.stats.spearmanr(by, values).statistic)


def test_nothing_to_tell() -> None:
    assert rank_correlation([row(0, 1.0), row(1, 2.0)], "max") == {}
    one = rank_correlation([row(0, 1.0, scores={"gradient": 1.0, "kernel": None})], "max")
    assert one == {"trials": 1, "gradient": None, "kernel": None, "both": None}
    none = rank_correlation([row(0, scores={"gradient": 1.0, "kernel": None})], "max")
    assert none == {"trials": 0, "gradient": None, "kernel": None, "both": None}
