"""The branching rate of appendix A.4, against closed forms and against sampling."""

import random
import statistics
from math import inf, isclose

import pytest

from eclose.spaces.einspace import Settings, consistency
from eclose.spaces.einspace.terminals.state import State


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
    for worst in ((2, 6), (6, 10, 14), (2, 2, 10, 6)):
        assert consistency(Settings().stop, State("im", worst)).radius < 1, "the default ends for every input"
    assert isclose(consistency(0.32, State("im", (3, 5, 7))).critical, 4 / 13)
    image = State("im", (3, 32, 32))
    assert consistency(0.32, image).radius < 1
    assert consistency(0.32, image, wide_groups=True).radius > 1, "as the authors offer groups, sampling explodes"


def derived(stop: float, rng: random.Random, root: bool = True) -> int:
    """Terminals of a derivation of the grammar without parameters, all twelve splits alike."""
    if not root and rng.random() < stop:
        return 1
    match rng.randrange(3):
        case 0:
            return derived(stop, rng, False) + derived(stop, rng, False)
        case 1:
            return 2 + derived(stop, rng, False)
        case _:
            return 2 + sum(derived(stop, rng, False) for _ in range(2 if rng.randrange(12) < 4 else 1))


@pytest.mark.parametrize("stop", [0.9, 0.6, 0.45])
def test_expected_length_of_derivations(stop: float) -> None:
    rng = random.Random(0)
    lengths = [derived(stop, rng) for _ in range(5000)]
    error = statistics.pstdev(lengths) / len(lengths) ** 0.5
    assert abs(statistics.mean(lengths) - consistency(stop).length) < 4 * error
