"""No network is trained twice."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from eclose.runs import Trial
from eclose.spaces import Genotype

_TRIES = 100


def new_among(trials: Sequence[Trial], make: Callable[[], Genotype | None], origin: str = "") -> Genotype | None:
    """The first that ``make`` gives and no trial has had; None after many tries."""
    known = {trial.hash for trial in trials}
    for _ in range(_TRIES):
        genotype = make()
        if genotype is not None and genotype.hash not in known:
            return replace(genotype, origin=origin or genotype.origin)
    return None
