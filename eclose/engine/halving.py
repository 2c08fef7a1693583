"""Successive halving over epochs (ASHA, Li et al. 2020), as a function of the curves so far.

At each rung, an early epoch, a training goes on only if it is among the best 1/eta of all that came as far. Nobody
waits for others: the first ones at a rung pass it.
"""

from collections.abc import Sequence
from typing import Any

from eclose.train.metrics import Goal, better

_RUNGS = 2

History = Sequence[dict[str, Any]]


def rungs(epochs: int, eta: int, every: int = 1) -> list[int]:
    """Epochs at which a training of ``epochs`` is judged: a 1/eta^2 and a 1/eta of it, where it is evaluated."""
    wanted = (epochs // eta**k for k in range(_RUNGS, 0, -1))
    rounded = {-(-epoch // every) * every for epoch in wanted if epoch}
    return sorted(epoch for epoch in rounded if epoch < epochs)


def passes(value: float, others: Sequence[float], goal: Goal, eta: int) -> bool:
    """Whether ``value`` is among the best 1/eta of itself and ``others``; ties pass, and so do the first ones."""
    count = len(others) + 1
    return count < eta or sum(better(goal, other, value) for other in others) < count // eta


def verdict(history: History, others: Sequence[History], goal: Goal, eta: int) -> str:
    """Why a training that stands at a rung is hopeless; empty: it goes on."""
    epoch = history[-1]["epoch"]
    value = best_until(history, epoch, goal)
    if value is None:
        return ""
    reached = [best_until(other, epoch, goal) for other in others if other and other[-1]["epoch"] >= epoch]
    known = [other for other in reached if other is not None]
    if passes(value, known, goal, eta):
        return ""
    return f"stopped after epoch {epoch}: not among the best 1/{eta} of {len(known) + 1} trials there"


def best_until(history: History, epoch: int, goal: Goal) -> float | None:
    """The best validation value up to ``epoch``."""
    best: float | None = None
    for entry in history:
        value = entry.get("valid")
        if value is not None and entry["epoch"] <= epoch and (best is None or better(goal, value, best)):
            best = value
    return best
