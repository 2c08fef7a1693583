"""The wall-clock time of a run: what is left, when nothing more should begin, and what is said of too little."""

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from eclose.engine import make_strategy
from eclose.engine.clock import Clock, beside, time_for_first_tests
from eclose.engine.driver import Driver
from eclose.engine.strategy import trainings_after
from eclose.runs import Trial
from eclose.spaces import Genotype
from eclose.tasks import Reading, task_from_arrays
from tests.contracts.cases import CONTINUOUS

COUNTS = {"train": 20, "val": 10, "test": 600}


def trial(number: int, seconds: float, elapsed: float) -> Trial:
    return Trial(number, "search", "net", "backbone", {}, "0", 0, state="done", seconds=seconds, elapsed=elapsed)


def clock(monkeypatch: pytest.MonkeyPatch, total: float, trials: Any = (), gone: float = 0.0) -> Clock:
    """One that was begun ``gone`` seconds ago."""
    now = time.perf_counter()
    monkeypatch.setattr("eclose.engine.clock.time.perf_counter", lambda: now)
    return Clock(total, trials, now - gone)


def test_the_end_of_a_run_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert clock(monkeypatch, 600.0).limit(1.0, []) == pytest.approx(576)  # a 25th
    assert clock(monkeypatch, 30.0).limit(0.5, []) == pytest.approx(13.5)  # three seconds
    assert clock(monkeypatch, 5.0).limit(1.0, []) == pytest.approx(4.5)  # or a tenth
    assert clock(monkeypatch, 0.0).limit(1.0, []) is None


def test_what_trainings_take_besides_their_steps_is_kept_free(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = [trial(0, 4.0, 10.0), trial(1, 4.0, 16.0), trial(2, 4.0, 24.0)]  # 2 and 4 s beside 4 s of steps
    assert clock(monkeypatch, 30.0, trials).limit(1.0, trials) == pytest.approx(27 - 24 - 3, abs=0.2)
    at_once = [trial(0, 9.0, 10.0), trial(1, 9.0, 10.5), trial(2, 9.0, 11.0)]
    assert clock(monkeypatch, 30.0, at_once).limit(1.0, at_once) == pytest.approx(27 - 11)


def test_what_a_gpu_tries_first_counts_as_time_besides_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = [replace(trial(number, 6.0, 10.0 + 7 * number), allowed=4.0) for number in range(3)]
    assert beside(trials) == pytest.approx(3.0)
    assert beside([replace(one, seconds=2.0) for one in trials]) == pytest.approx(5.0)  # ended before its time
    assert clock(monkeypatch, 60.0, trials).limit(0.5, trials) == pytest.approx((57 - 24) / 2 - 3)


@pytest.mark.parametrize(("seconds", "beyond"), [(16.0, 6.0), (10.5, 0.5), (8.0, 0.0)])
def test_after_one_training_the_next_leaves_time_for_as_much(
    monkeypatch: pytest.MonkeyPatch, seconds: float, beyond: float
) -> None:
    """A supernet, say, and then what it found: a GPU sets up for both."""
    ended = replace(trial(0, seconds, 20.0), allowed=10.0)
    row = Trial(1, "fitted", "linear model", "backbone", {}, "1", 0, state="done", seconds=3.0)
    told = clock(monkeypatch, 60.0, [ended])
    runner, config = SimpleNamespace(trials=lambda: [ended, row]), CONTINUOUS["nos"].search(space="nos").config
    for device, less in (("cuda", beyond), ("cpu", 0.0)):
        driver = SimpleNamespace(clock=told, runner=runner, config=config, device=torch.device(device))
        left = Driver._limit(driver, "final")  # type: ignore[arg-type]
        assert left == pytest.approx((57 - 20) / max(1, trainings_after(config)) - less)
    assert told.limit(1.0, [ended]) == pytest.approx(57 - 20), "one in a search that compares many says little"


def test_tests_have_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = [trial(0, 4.0, 10.0)]
    told = clock(monkeypatch, 60.0, trials)
    told.testing = lambda trials: 5.0 * len(trials)
    assert told.limit(1.0, trials) == pytest.approx(57 - 10 - 5)
    assert not told.over(trials)
    assert told.over(10 * trials)


class Slow(torch.nn.Module):
    """Takes so many seconds for every sample."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds, self.asked = seconds, list[int]()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.asked.append(len(x))
        time.sleep(self.seconds * len(x))
        return x.flatten(1)[:, :2]


def test_tests_have_their_time_before_any_training_has_shown_it() -> None:
    arrays = {f"x_{part}": np.zeros((count, 1, 8), np.float32) for part, count in COUNTS.items()}
    arrays |= {f"y_{part}": np.arange(count) % 2 for part, count in COUNTS.items()}
    task = task_from_arrays("toy", arrays, Reading())
    for each, shown in ((0.001, [16, 16, 256, 256]), (0.02, [16, 16])):  # few samples of a slow one tell enough
        slow = Slow(each)
        seconds = time_for_first_tests(slow, task, "accuracy", 2, torch.device("cpu"))
        assert each * (2 * 600 + 10) < seconds < 10 * each * (2 * 600 + 10)
        assert slow.asked == shown
    untested = replace(task, test=None)
    assert time_for_first_tests(Slow(1.0), untested, "accuracy", 2, torch.device("cpu")) == 0


@pytest.mark.parametrize(("space", "seconds"), [("nos", 1.5), ("xd", 2 * 100.0)])
def test_supernets_that_give_no_weights_are_not_tested(space: str, seconds: float) -> None:
    """Others are what a run ends with. There are as many test samples as validate."""
    search = CONTINUOUS[space].search(space=space)
    asked: list[Genotype] = []
    first = {"_first_tests": lambda genotype: asked.append(genotype) or 1.5}
    driver = SimpleNamespace(search=search, task=search.task, strategy=make_strategy(search.config), **first)
    ended = replace(trial(0, 4.0, 10.0), judging=100.0, valid=0.5, space=space, genotype={"found": "it"})
    assert Driver._testing(driver, []) == 1.5  # type: ignore[arg-type]
    assert Driver._testing(driver, [ended]) == pytest.approx(seconds)  # type: ignore[arg-type]
    found = [Genotype(space, {"found": "it"})] if space == "nos" else []
    assert asked == [search.start, *found]


def test_nothing_begins_late(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = [trial(0, 4.0, 10.0), trial(1, 4.0, 16.0)]
    assert not clock(monkeypatch, 30.0, trials, gone=8.0).over(trials)
    assert clock(monkeypatch, 30.0, trials, gone=9.0).over(trials)
    assert not clock(monkeypatch, 0.0, trials, gone=1e9).over(trials)


def test_a_run_says_that_it_took_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert clock(monkeypatch, 30.0, gone=32.0).exceeded() == ""
    assert clock(monkeypatch, 0.0, gone=32.0).exceeded() == ""
    told = clock(monkeypatch, 30.0, gone=34.0).exceeded()
    assert told.startswith("the run took 34 s instead of 30: ")
    assert "give it more --minutes" in told
    assert clock(monkeypatch, 0.06, gone=0.75).exceeded().startswith("the run took 0.75 s instead of 0.06: ")
