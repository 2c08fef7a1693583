"""The wall-clock time of a run, over all processes that had it in hand one after the other."""

import time
from collections.abc import Callable, Sequence

import torch
from torch import nn

from eclose.runs import Trial
from eclose.tasks import Task
from eclose.train import Batches, World, evaluate
from eclose.train.metrics import make_metric

_FIGURES = 0.04  # of the time: for test figures and the page
_PAGE, _MOST = 3.0, 0.1  # seconds that these take however short a run is, if that is no larger part of it
_LEAST = 0.2  # seconds below which a training is not worth its while
_RIVALS = 2  # of which either may be the best in the end
_KEPT = 1.1  # times its minutes: what a run may take
_SHOWN = (16, 256)  # test samples, from which follows how long all take; the more if the fewer are quick
_TELLING = 0.1  # seconds that fewer must take to tell it


class Clock:
    """Counts on from what the rows of a run say had gone by."""

    def __init__(
        self,
        total: float,
        trials: Sequence[Trial],
        begun: float,
        testing: Callable[[Sequence[Trial]], float] = lambda trials: 0.0,
    ) -> None:
        """``total``: seconds of the whole run; 0: no limit. ``begun``: when this process took it in hand.

        ``testing``: seconds that it will take to test what was trained.
        """
        self.testing = testing
        self.total = total
        self.before = max((trial.elapsed or 0.0 for trial in trials), default=0.0)
        self.begun = begun

    @property
    def limited(self) -> bool:
        """Whether there is an end."""
        return self.total > 0

    def elapsed(self) -> float:
        """Seconds that have gone by."""
        return self.before + time.perf_counter() - self.begun

    def limit(self, share: float, trials: Sequence[Trial], foreseen: float = 0.0) -> float | None:
        """Seconds of a training that may take this share of what is left; None: as long as it takes.

        What the trainings so far took before their first step and after their last one is not for training;
        ``foreseen``: that, where too few have ended to tell.
        """
        if not self.limited:
            return None
        return max(_LEAST, min(share, 1.0) * self._left(trials) - (beside(trials) or foreseen))

    def over(self, trials: Sequence[Trial]) -> bool:
        """Whether no further training would end in time."""
        return self.limited and self._left(trials) - beside(trials) < _LEAST

    def late(self) -> bool:
        """Whether all of the time has gone by."""
        return self.limited and self.elapsed() > self.total

    def exceeded(self) -> str:
        """What to say of a run that took clearly longer than it was given; else nothing."""
        gone = self.elapsed()
        if not self.limited or gone <= _KEPT * self.total:
            return ""
        return (
            f"the run took {_seconds(gone)} s instead of {_seconds(self.total)}: "
            "what has to be done at least takes longer than that on this machine; "
            "give it more --minutes, or a smaller network"
        )

    def _left(self, trials: Sequence[Trial]) -> float:
        return for_trainings(self.total) - self.testing(trials) - self.elapsed()


def for_trainings(total: float) -> float:
    """Seconds of a run after which nothing is trained any more."""
    return total - max(_FIGURES * total, min(_PAGE, _MOST * total))


def _seconds(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def time_for_tests(best: Sequence[Trial], task: Task) -> float:
    """Seconds that tests in the end take at least: of what is found, and of a network beside it, if these are best.

    A slow network that has learned nothing must not take the others' time.
    """
    known = [trial.judging or 0.0 for trial in best if not trial.collapsed][:_RIVALS]
    if task.test is None or not len(task.val) or not known:
        return 0.0
    return 2 * max(known) * len(task.test) / len(task.val)


def time_for_first_tests(model: nn.Module, task: Task, metric: str, networks: int, device: torch.device) -> float:
    """The same where no training has shown it: of so many networks like ``model``, which answers a few samples.

    One of them is judged by the validation samples, too.
    """
    if task.test is None:
        return 0.0
    each = 0.0
    for most in _SHOWN:
        rows = torch.arange(min(most, len(task.test)))
        shown, seconds = Batches(task.test.select(rows), task.signature, device), 0.0
        for _ in range(2):  # the first pass sets up what the second one uses
            begun = time.perf_counter()
            evaluate(model, shown, make_metric(metric), World())
            seconds = time.perf_counter() - begun
        each = seconds / len(rows)
        if seconds > _TELLING:
            break
    return (networks * len(task.test) + len(task.val)) * each


def beside(trials: Sequence[Trial]) -> float:
    """Seconds that a training took on average besides those it was allowed; nothing where several go on at a time.

    A GPU tries its algorithms in them, and weights are judged. The first training is left out: before it a run makes
    itself ready.
    """
    ended = sorted((trial.elapsed, for_steps(trial)) for trial in trials if trial.elapsed is not None)
    if len(ended) < 2:
        return 0.0
    gone, steps = ended[-1][0] - ended[0][0], sum(seconds for _, seconds in ended[1:])
    return max(0.0, (gone - steps) / (len(ended) - 1))


def for_steps(trial: Trial) -> float:
    """Seconds of a training for its steps: all, but for those that it took beyond what it was allowed."""
    seconds = trial.seconds or 0.0
    return seconds if trial.allowed is None else min(seconds, trial.allowed)


def beyond(trial: Trial) -> float:
    """The others: those in which a GPU tried its algorithms, and weights were judged for the last time."""
    return (trial.seconds or 0.0) - for_steps(trial)
