"""The contract of executors, met by both; and what only workers in processes of their own survive."""

import dataclasses
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eclose
from eclose.engine.executors import ray_executor
from eclose.errors import ConfigError, EcloseError, Interrupted
from eclose.runs import Run, Trial
from tests.engine import perils, widths  # noqa: F401  (they register their spaces)

CPUS = 3


def arguments(run: Path, *behaviours: str, **settings: Any) -> dict[str, Any]:
    fixed = {"run.threads": 1, "task.subset": 150, "task.subset_eval": 80, "strategy.start": "mix"}
    quick = {"strategy.halving": 0, "final.networks": 0, "train.batch": 30, "space.behaviours": behaviours}
    given = {"task": "digits", "space": "perils", "epochs": 2, "trials": len(behaviours), "out": run}
    return {**given, "settings": {**fixed, **quick, **settings}}


def rows(run: Path) -> list[Trial]:
    return Run.open(run).table.all()


def interrupt_at_checkpoint(run: Path) -> None:
    """Press Ctrl-C as soon as a trial has written a checkpoint."""

    def watch() -> None:
        while not list(run.glob("trials/*/checkpoint.safetensors")):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=watch, daemon=True).start()


class Contract:
    """Every executor; ``workers`` says which."""

    workers: int

    def test_every_trial_ends_and_failures_have_their_reason(self, tmp_path: Path) -> None:
        """Of a search in data that exist only here, with scores of networks that are to be trained."""
        rng = np.random.default_rng(0)
        data = {"x": rng.normal(size=(60, 1, 4, 4)), "y": np.arange(60) % 3}
        behaviours = ("plain", "raises", "has a fault", "needs memory", "exceeds a limit", "plain", "plain")
        settings = {"task.subset": 0, "task.subset_eval": 0, "strategy.prefilter": 2}
        given = {**arguments(tmp_path / "run", *behaviours, **settings), "task": "", "data": data}
        result = eclose.search(**given, workers=self.workers)
        trials = rows(result.run)
        assert [trial.genotype["behaviour"] for trial in trials] == list(behaviours)
        assert [trial.state for trial in trials] == ["done", *4 * ["failed"], "done", "done"]
        assert [trial.reason.partition(": ")[0] for trial in trials[1:3]] == ["RuntimeError", "KeyError"]
        assert {trial.reason.partition(":")[0] for trial in trials[3:5]} == {"out of memory"}
        assert result.metrics["valid"] == max(trial.valid for trial in trials if trial.valid is not None)
        assert result.model is not None  # the weights are there
        events = [json.loads(line) for line in (result.run / "events.jsonl").read_text().splitlines()]
        assert sorted(event["trial"] for event in events if event["event"] == "trial_end") == list(range(7))
        assert sum(event["event"] == "epoch" for event in events) == 2 * 3
        assert all(set(trial.scores) == {"gradient", "kernel"} for trial in trials)
        assert [None in trial.scores.values() for trial in trials] == [False, *4 * [True], False, False]

    def test_stopped_trials_go_on_from_their_checkpoints(self, tmp_path: Path) -> None:
        run = tmp_path / "run"
        interrupt_at_checkpoint(run)
        slow = {"run.checkpoint_seconds": 0.2, "train.epochs": 12}
        with pytest.raises(Interrupted):
            eclose.search(**{**arguments(run, "slow", "slow", "slow", **slow), "epochs": None}, workers=self.workers)
        under_way = [trial for trial in rows(run) if trial.state == "running"]
        assert under_way
        assert list(run.glob("trials/*/checkpoint.safetensors"))
        eclose.resume(run)
        assert [(trial.state, trial.epochs) for trial in rows(run)] == 3 * [("done", 12)]
        events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
        epochs = [(event["trial"], event["epoch"]) for event in events if event["event"] == "epoch"]
        assert sorted(epochs) == [(trial, epoch) for trial in range(3) for epoch in range(1, 13)]


class TestSerial(Contract):
    workers = 1

    def test_a_time_limit_ends_each_training(self, tmp_path: Path) -> None:
        slow = {"train.epochs": 1000, "final.networks": 1, "task.subset": 60, "budget.training_seconds": 0.1}
        given = {**arguments(tmp_path / "run", "slow", "slow", **slow), "epochs": None}
        result = eclose.search(**given)
        assert [trial.role for trial in rows(result.run)] == ["search", "search", "final"]
        for trial in rows(result.run):
            assert trial.state == "done"
            assert (trial.epochs or 0) < 1000
            assert 0.1 <= (trial.seconds or 0.0) < 2


@pytest.fixture(scope="class")
def one_ray() -> Iterator[None]:
    """One Ray for several tests; executors use one that they find and leave it running."""
    ray = pytest.importorskip("ray")
    handler = signal.getsignal(signal.SIGTERM)
    ray.init("local", num_cpus=CPUS, include_dashboard=False, log_to_driver=False, configure_logging=False)
    signal.signal(signal.SIGTERM, handler)
    yield
    assert ray.is_initialized()
    ray.shutdown()


@pytest.mark.usefixtures("one_ray")
class TestRay(Contract):
    workers = 2

    def test_a_worker_that_dies_or_hangs_loses_only_its_trial(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The first one dies before it has a trial, and loses none."""
        deaths = tmp_path / "deaths"
        deaths.mkdir()
        monkeypatch.setattr(ray_executor, "Worker", perils.stillborn(deaths, 1))
        monkeypatch.setattr(ray_executor, "GRACE", 10.0)
        behaviours = ("plain", "dies", "plain", "hangs", "plain", "plain")
        given = arguments(tmp_path / "run", *behaviours, **{"budget.training_seconds": 2.0})
        result = eclose.search(**given, workers=self.workers)
        trials = rows(result.run)
        assert [trial.state for trial in trials] == ["done", "failed", "done", "failed", "done", "done"]
        assert trials[1].reason == "its worker process died: killed, crashed, or out of memory"
        assert trials[3].reason == "timed out: no end 14 s after its begin, of which it had 2"
        assert len(list(deaths.iterdir())) == 1

    def test_nobody_waits_for_a_slow_trial(self, tmp_path: Path) -> None:
        run = tmp_path / "run"
        given = arguments(run, "plain", f"until {run / 'trials' / '5'}", **{"strategy.population": 2})
        result = eclose.search(**{**given, "trials": 6}, workers=self.workers)
        events = [json.loads(line) for line in (result.run / "events.jsonl").read_text().splitlines()]
        ended = [event["trial"] for event in events if event["event"] == "trial_end"]
        assert ended[:4] == [0, 2, 3, 4], "children of the quick trial are tried while the slow one runs"

    def test_drawn_networks_do_not_depend_on_the_workers(self, tmp_path: Path) -> None:
        given = {"task": "digits", "space": "widths", "strategy": "random", "epochs": 2, "trials": 5}
        few = {"task.subset": 150, "task.subset_eval": 80, "strategy.halving": 0}
        figures = []
        for workers in (1, self.workers):
            run = tmp_path / str(workers)
            settings = {**few, "run.threads": workers}  # one each
            eclose.search(**given, out=run, workers=workers, settings=settings)
            figures.append([(trial.role, trial.hash, trial.state, trial.valid, trial.test) for trial in rows(run)])
        assert figures[0] == figures[1]

    @pytest.mark.exhaustive
    def test_workers_that_all_die_before_they_begin_end_the_search(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        deaths = tmp_path / "deaths"
        deaths.mkdir()
        monkeypatch.setattr(ray_executor, "_STILLBORN", 1)
        monkeypatch.setattr(ray_executor, "Worker", perils.stillborn(deaths, 99))
        run = tmp_path / "none"
        with pytest.raises(EcloseError, match="2 workers in turn died before .* eclose resume .*none --workers 1"):
            eclose.search(**arguments(run, "plain", "plain", "plain"), workers=self.workers)
        assert {trial.state for trial in rows(run)} == {"running"}

    def test_more_workers_than_there_is_room_for(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=f"9 workers of 1 threads .* the Ray cluster has {CPUS}: lower --workers"):
            eclose.search(**arguments(tmp_path / "run", "plain", "plain"), workers=9)


def test_addresses_where_nobody_answers(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    for address in ("nowhere", "http://nowhere:80", "host:port", "host:70000"):
        with pytest.raises(ConfigError, match=f"--ray-address is '{address}', but must be HOST:PORT"):
            eclose.search(**arguments(tmp_path / "run", "plain"), ray_address=address)
    with socket.socket() as taken:  # bound, but not listening
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(ConfigError, match=f"no Ray at {address} .*refused.*: start it with `ray start"):
            eclose.search(**arguments(tmp_path / "run", "plain"), ray_address=address)
    assert time.monotonic() - began < 10
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_with_nothing_left_to_try_needs_no_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    run = tmp_path / "run"
    eclose.search(**arguments(run, "plain", "plain", **{"final.networks": 1}))
    (run / "result.json").unlink()
    table = Run.open(run).table
    table.put(dataclasses.replace(table.all()[2], state="running"))  # killed in the final training
    monkeypatch.setattr(ray, "init", None)
    eclose.resume(run, workers=2)
    assert [trial.state for trial in rows(run)] == ["done"] * 3


def test_a_run_of_a_cluster_that_is_gone_goes_on_here(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    run = tmp_path / "run"
    eclose.search(**arguments(run, "plain"))
    (run / "result.json").unlink()
    text = (run / "config.toml").read_text(encoding="utf-8")
    assert 'ray_address = ""' in text
    (run / "config.toml").write_text(text.replace('ray_address = ""', 'ray_address = "127.0.0.1:9"'), encoding="utf-8")
    with pytest.raises(ConfigError, match="no Ray at 127.0.0.1:9"):
        eclose.resume(run, trust=True)  # an edited file is somebody else's
    assert eclose.resume(run, workers=1).metrics["trials"] == 1


def test_workers_that_cannot_help_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for strategy, space in (("train", "backbone"), ("supernet", "xd")):
        with pytest.raises(ConfigError, match=f"the strategy '{strategy}' trains one network"):
            eclose.search(task="digits", space=space, workers=2, out=tmp_path / "run")
    with pytest.raises(ConfigError, match="run.workers is 0, but must be at least 1"):
        eclose.search(**arguments(tmp_path / "run", "plain"), workers=0)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match="pip install 'eclose\\[ray\\]'"):
        eclose.search(**arguments(tmp_path / "run", "plain"), workers=2)
    assert not (tmp_path / "run").exists()
