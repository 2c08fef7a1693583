"""Regularised evolution (Real et al. 2019): a queue of trials that the oldest leave, and tournaments among them."""

from collections.abc import Sequence

import torch

from eclose.runs import Trial

Key = tuple[float, ...]


def living(trials: Sequence[Trial], size: int, first: int) -> list[Trial]:
    """The last ``size`` trials that have ended, after a first generation of that many.

    The first generation repeats the first ``first`` trials in turn: known networks are trained once, and their copies
    leave the queue one by one. Trials under way are not waited for.
    """
    generation = [trials[place % first] for place in range(max(size, first))]
    queue = [trial for trial in [*generation, *trials[first:]] if trial.state != "running"]
    return queue[-size:]


def tournament(keys: Sequence[Key], size: int, generator: torch.Generator) -> int:
    """The place of the smallest key among ``size`` drawn without putting back; the earliest drawn of equals."""
    drawn = torch.randperm(len(keys), generator=generator)[:size].tolist()
    return int(min(drawn, key=lambda place: keys[place]))
