"""The branching rate of appendix A.4, against closed forms and against sampling."""

import statistics
from dataclasses import replace
from math import inf, isclose

import pytest

from eclose.spaces.einspace import Settings, consistency
from eclose.spaces.einspace.grammar import Branch, Op, Tree
from eclose.spaces.einspace.shapes import State
from eclose.spaces.einspace.tree import children
from tests.spaces.einspace.inputs import IMAGES, samples


def test_the_papers_probability() -> None:
    found = consistency(0.32)
    assert isclose(found.radius, 0.68 / 3 * (3 + 4 / 3))
    assert isclose(found.critical, 4 / 13), "0.31 in figure 4"
    # E[M] = p + (1 - p)/3 (2 E[M] + (4/3) E[M] + 2 + E[M] + 2)
    module = (0.32 + 0.68 * 4 / 3) / (1 - found.radius)
    assert isclose(found.length, (13 / 3 * module + 4) / 3)


def test_the_critical_point() -> None:
    critical = consistency(0.5).critical
    assert consistency(critical - 1e-6).radius > 1
    assert consistency(critical - 1e-6).length == inf
    assert consistency(critical + 1e-6).radius < 1


def test_under_the_parameters_of_an_input() -> None:
    state = State("im", (6, 10, 14))  # every axis divides by 2 only
    found = consistency(0.32, state)
    assert isclose(found.critical, 1 - 3 / (3 + 10 / 6))
    assert found.radius > 1, "the paper's probability is supercritical for this input"
    assert consistency(0.36, state).radius < 1
    assert isclose(consistency(0.32, State("im", (3, 5, 7))).critical, 4 / 13)


def drawn(tree: Tree) -> int:
    """Terminals, repeated branches once."""
    return 1 if isinstance(tree, Op) else sum(map(drawn, children(tree)))


@pytest.mark.parametrize("stop", [0.9, 0.7, 0.5])
def test_expected_length_of_samples(stop: float) -> None:
    """Nearly: branches that nothing merges are drawn again, so that sampled trees are a little shorter."""
    trees = samples(IMAGES, 3000, replace(Settings.paper(), stop=stop, wide_groups=False))
    lengths = [drawn(tree) for tree in trees]
    error = statistics.pstdev(lengths) / len(lengths) ** 0.5
    expected = consistency(stop).length
    assert 0.85 * expected - 4 * error < statistics.mean(lengths) < expected + 4 * error
    assert any(isinstance(tree, Branch) for tree in trees)
