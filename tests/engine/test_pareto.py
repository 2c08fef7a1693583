"""Fronts and crowding against a transcription of their definitions."""

import math
import random

import pytest

from eclose.engine.pareto import crowding, fronts, preference

Point = tuple[float, ...]


def dominates(a: Point, b: Point) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True)) and any(x < y for x, y in zip(a, b, strict=True))


def literal_fronts(points: list[Point]) -> list[int]:
    number: dict[int, int] = {}
    front = 0
    while len(number) < len(points):
        left = [i for i in range(len(points)) if i not in number]
        free = [i for i in left if not any(dominates(points[j], points[i]) for j in left)]
        number.update(dict.fromkeys(free, front))
        front += 1
    return [number[i] for i in range(len(points))]


def literal_crowding(points: list[Point]) -> list[float]:
    room = [0.0] * len(points)
    for axis in range(len(points[0])):
        order = sorted(range(len(points)), key=lambda i: points[i][axis])
        low, high = points[order[0]][axis], points[order[-1]][axis]
        if low == high:
            continue
        room[order[0]] = room[order[-1]] = math.inf
        for before, here, after in zip(order, order[1:], order[2:], strict=False):
            room[here] += (points[after][axis] - points[before][axis]) / (high - low)
    return room


@pytest.mark.parametrize("objectives", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 2, 7, 41])
@pytest.mark.parametrize("distinct", [3, 10**6])
def test_against_the_definitions(objectives: int, count: int, distinct: int) -> None:
    for seed in range(10):
        rng = random.Random(seed)
        points = [tuple(float(rng.randrange(distinct)) for _ in range(objectives)) for _ in range(count)]
        assert fronts(points) == literal_fronts(points)
        assert crowding(points) == pytest.approx(literal_crowding(points))


def test_failed_trials_are_the_last_front() -> None:
    failed = (math.inf, math.inf)
    points = [failed, (0.3, 10.0), (0.1, 90.0), failed, (0.4, 20.0)]
    assert fronts(points) == [2, 0, 0, 2, 1]
    order = sorted(range(5), key=preference(points).__getitem__)
    assert set(order[:2]) == {1, 2}
    assert set(order[3:]) == {0, 3}


def test_more_room_is_preferred_within_a_front() -> None:
    points = [(0.0, 10.0), (1.0, 8.9), (1.1, 8.8), (5.0, 4.0), (10.0, 0.0)]
    keys = preference(points)
    assert {front for front, _ in keys} == {0}
    assert sorted(range(5), key=keys.__getitem__) == [0, 4, 3, 2, 1]


def test_nothing_to_sort() -> None:
    assert fronts([]) == []
    assert preference([]) == []
