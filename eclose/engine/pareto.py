"""Several objectives at once: non-dominated sorting and crowding (NSGA-II, Deb et al. 2002). Smaller is better."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Points = Sequence[Sequence[float]]


def fronts(points: Points) -> list[int]:
    """For every point the number of its front; 0: no other point is as good everywhere and better somewhere."""
    if not points:
        return []
    values = np.asarray(points, dtype=np.float64)  # (points, objectives)
    no_worse = np.all(values[:, None] <= values[None], axis=-1)
    dominates: npt.NDArray[np.bool_] = no_worse & ~no_worse.T
    better = dominates.sum(0)  # how many points not yet in a front dominate each
    number = np.full(len(values), -1)
    front = 0
    while (number < 0).any():
        (members,) = np.nonzero((number < 0) & (better == 0))
        number[members] = front
        better = better - dominates[members].sum(0)
        front += 1
    return [int(n) for n in number]


def crowding(points: Points) -> list[float]:
    """How much room each point of a front has: the sides of the box between its neighbours, infinite at the ends.

    An objective in which all are alike has no ends and adds nothing.
    """
    values = np.asarray(points, dtype=np.float64)
    room = np.zeros(len(values))
    for column in values.T:
        order = column.argsort(kind="stable")
        ascending = column[order]
        if ascending[0] < ascending[-1]:
            room[order[1:-1]] += (ascending[2:] - ascending[:-2]) / (ascending[-1] - ascending[0])
            room[order[[0, -1]]] = np.inf
    return [float(r) for r in room]


def preference(points: Points) -> list[tuple[int, float]]:
    """Sort keys: by front, and within a front those with more room first."""
    number = fronts(points)
    room = [0.0] * len(number)
    for front in set(number):
        members = [place for place, n in enumerate(number) if n == front]
        for place, value in zip(members, crowding([points[place] for place in members]), strict=True):
            room[place] = value
    return [(n, -r) for n, r in zip(number, room, strict=True)]
