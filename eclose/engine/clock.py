"""The wall-clock time of a run, over all processes that had it in hand one after the other."""

import time
from collections.abc import Sequence

from eclose.runs import Trial

_FIGURES = 0.04  # of the time: for test figures and the page
_LEAST = 1.0  # second that even a late training gets


class Clock:
    """Counts on from what the rows of a run say had gone by."""

    def __init__(self, total: float, trials: Sequence[Trial]) -> None:
        """``total``: seconds of the whole run; 0: no limit."""
        self.total = total
        self.before = max((trial.elapsed or 0.0 for trial in trials), default=0.0)
        self.begun = time.perf_counter()

    @property
    def limited(self) -> bool:
        """Whether there is an end."""
        return self.total > 0

    def elapsed(self) -> float:
        """Seconds that have gone by."""
        return self.before + time.perf_counter() - self.begun

    def limit(self, share: float) -> float | None:
        """Seconds of a training that may take this share of what is left; None: as long as it takes."""
        if not self.limited:
            return None
        left = (1 - _FIGURES) * self.total - self.elapsed()
        return max(_LEAST, min(share, 1.0) * left)
