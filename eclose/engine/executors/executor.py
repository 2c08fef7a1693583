"""Who trains the trials of a search: this process, one after the other, or workers, several at a time.

Whoever trains, only the driver writes the trial table and the files of the run; a trial's own folder belongs to
whoever trains it.
"""

from typing import Protocol

from eclose.engine.runner import TrialRunner
from eclose.runs import Trial
from eclose.spaces import Genotype


class Executor(Protocol):
    """Takes trials and gives back their rows."""

    workers: int  # trials at a time

    def start(self, trial: Trial, genotype: Genotype) -> None:
        """Begin a trial, or go on from its checkpoint; there must be fewer under way than ``workers``."""

    def wait(self) -> Trial:
        """The row of the next trial that ends, well or not. Raises ``Interrupted`` once the user asked to stop."""

    def close(self) -> None:
        """End all that was started for the search."""


class SerialExecutor:
    """One trial at a time, in this process."""

    workers = 1

    def __init__(self, runner: TrialRunner) -> None:
        self.runner = runner
        self.next: list[tuple[Trial, Genotype]] = []

    def start(self, trial: Trial, genotype: Genotype) -> None:
        """See :class:`Executor`."""
        self.next.append((trial, genotype))

    def wait(self) -> Trial:
        """See :class:`Executor`."""
        return self.runner.train(*self.next.pop())

    def close(self) -> None:
        """Nothing was started."""
