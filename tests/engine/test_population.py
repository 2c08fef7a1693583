"""The queue of trials and the tournaments among them."""

from collections import Counter
from math import comb

import pytest
import torch

from eclose.engine.sampled_search import living, tournament
from tests.engine.rows import row


def numbers(trials: list) -> list[int]:
    return [trial.number for trial in trials]


def test_the_oldest_leave() -> None:
    trials = [row(n, 0.5) for n in range(7)]
    assert numbers(living(trials[:4], 4, 4)) == [0, 1, 2, 3]
    assert numbers(living(trials, 4, 4)) == [3, 4, 5, 6]


def test_trials_under_way_are_not_waited_for() -> None:
    trials = [row(n, None if n in (2, 5) else 0.5) for n in range(7)]
    assert numbers(living(trials, 4, 4)) == [1, 3, 4, 6]
    assert living([row(n) for n in range(4)], 4, 4) == []


def test_failed_trials_take_a_place() -> None:
    trials = [row(0, 0.5), row(1, state="failed"), row(2, 0.5)]
    assert numbers(living(trials, 2, 2)) == [1, 2]


def test_seeds_fill_the_first_generation_and_leave_one_by_one() -> None:
    seeds = [row(0, 0.9), row(1, 0.8)]
    children = [row(n, 0.5) for n in range(2, 8)]
    assert numbers(living(seeds, 5, 2)) == [0, 1, 0, 1, 0]
    assert numbers(living(seeds + children[:2], 5, 2)) == [0, 1, 0, 2, 3]
    assert numbers(living(seeds + children[:1], 3, 3)) == [0, 1, 2]
    assert numbers(living(seeds + children[:2], 2, 4)) == [2, 3], "more seeds than places"
    assert numbers(living(seeds + children[:5], 5, 2)) == [2, 3, 4, 5, 6]


def test_tournaments_are_won_as_often_as_they_should() -> None:
    # The k-th best of n wins if it is drawn and none of the better ones is: C(n - 1 - k, s - 1) / C(n, s).
    count, size, rounds = 7, 3, 4000
    keys = [(float(k), 0.0) for k in (4, 0, 6, 2, 5, 1, 3)]
    generator = torch.Generator().manual_seed(0)
    wins = Counter(keys[tournament(keys, size, generator)][0] for _ in range(rounds))
    for place in range(count):
        chance = comb(count - 1 - place, size - 1) / comb(count, size)
        assert wins[place] / rounds == pytest.approx(chance, abs=4 * (chance * (1 - chance) / rounds) ** 0.5)


def test_a_tournament_of_all_is_won_by_the_best() -> None:
    keys = [(1, 0.0), (0, -1.0), (0, -2.0), (2, 0.0)]
    assert tournament(keys, 10, torch.Generator().manual_seed(3)) == 2
