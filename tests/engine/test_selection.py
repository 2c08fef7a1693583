"""Which trials come first, by one objective or by several."""

import math

import pytest

from eclose.engine.selection import Selection, front, point, ranked
from eclose.errors import ConfigError
from tests.engine.rows import row

TRIALS = [
    row(0, 0.90, parameters=500, flops=10),
    row(1, 0.95, parameters=900, flops=90),
    row(2, state="failed"),
    row(3, 0.95, parameters=800, flops=80),
    row(4, math.nan, parameters=1, flops=1),
    row(5),
    row(6, 0.80, parameters=600, flops=60),
    row(7, 0.70, parameters=100, flops=10),
]


def test_by_error_alone_earlier_ones_first() -> None:
    assert [trial.number for trial in ranked(TRIALS, "max")] == [1, 3, 0, 6, 7, 4]
    assert [trial.number for trial in ranked(TRIALS, "min")] == [7, 6, 0, 1, 3, 4]


def test_by_several_objectives() -> None:
    objectives = ("error", "parameters")
    assert [trial.number for trial in front(TRIALS, "max", objectives)] == [3, 0, 7]
    assert [trial.number for trial in ranked(TRIALS, "max", objectives)] == [3, 0, 7, 1, 6, 4]
    assert [trial.number for trial in front(TRIALS, "max", ("error", "flops"))] == [3, 0]
    assert [trial.number for trial in front([*TRIALS, row(8, 0.7, parameters=100)], "max", objectives)] == [3, 0, 7]


def test_a_measured_objective_counts_like_the_others() -> None:
    trials = [row(0, 0.9, latency=2.0), row(1, 0.8, latency=1.0), row(2, 0.7, latency=1.5), row(3, 0.95)]
    assert [trial.number for trial in front(trials, "max", ("error", "latency"))] == [3, 0, 1]
    assert point(trials[0], "max", ("error", "latency")) == (-0.9, 2.0)
    assert point(trials[3], "max", ("error", "latency")) == (-0.95, math.inf), "not measured is the slowest"


def test_what_failed_is_worst_in_everything() -> None:
    for trial in (TRIALS[2], TRIALS[4], TRIALS[5]):
        assert point(trial, "max", ("error", "parameters")) == (math.inf, math.inf)
    assert point(TRIALS[0], "max", ("flops", "error")) == (10, -0.9)
    assert point(TRIALS[0], "min", ("error",)) == (0.9,)


@pytest.mark.parametrize(
    ("selection", "says"),
    [
        (Selection(objectives=("error", "lateny")), "unknown objective 'lateny'; did you mean 'latency'?"),
        (Selection(objectives=("flops",)), "must contain 'error'"),
        (Selection(halving=1), "strategy.halving is 1, but must be 0"),
        (Selection(halving=-3), "strategy.halving is -3"),
    ],
)
def test_mistakes(selection: Selection, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        selection.check()


def test_defaults_are_right() -> None:
    Selection().check()
    Selection(("error", "flops"), 0, 0).check()
