"""Threads that wait stay awake for a short while only, unless the user says otherwise."""

import json
import os
import subprocess
import sys

import pytest
import torch

from eclose.display.terminal import doctor
from eclose.engine.executors.ray_cluster import import_ray
from eclose.waiting import SETTINGS, SPINS, wait_briefly, waiting

START = """
import json, os, sys
import eclose.cli
sys.argv = ["eclose", "--version"]
try:
    eclose.cli.run()
except SystemExit:
    print(json.dumps([dict(os.environ), "torch" in sys.modules]))
"""


@pytest.fixture
def untold(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in SETTINGS:
        monkeypatch.setenv(name, "")  # so that what the test sets is taken away again
        monkeypatch.delenv(name)
    return monkeypatch


def test_the_command_line_sets_it_before_torch_is_loaded(untold: pytest.MonkeyPatch) -> None:
    done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True)
    environment, loaded = json.loads(done.stdout.splitlines()[-1])
    assert environment["GOMP_SPINCOUNT"] == SPINS
    assert not loaded


@pytest.mark.parametrize(("name", "value"), [("OMP_WAIT_POLICY", "ACTIVE"), ("GOMP_SPINCOUNT", "7")])
def test_a_choice_of_the_user_stays(untold: pytest.MonkeyPatch, name: str, value: str) -> None:
    untold.setenv(name, value)
    wait_briefly()
    assert {key: os.environ[key] for key in SETTINGS if key in os.environ} == {name: value}
    if sys.platform == "linux":
        assert waiting() == f"{name}={value}"


def test_workers_inherit_it(untold: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    import_ray()
    assert os.environ["GOMP_SPINCOUNT"] == SPINS


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have another OpenMP")
def test_the_doctor_says_what_it_found(untold: pytest.MonkeyPatch) -> None:
    facts, _ = doctor.examine()
    assert facts["waiting threads"].endswith(f"slow on a busy machine: set GOMP_SPINCOUNT={SPINS} before Python starts")
    wait_briefly()
    assert waiting() == f"GOMP_SPINCOUNT={SPINS}"


@pytest.mark.parametrize(
    ("load", "told"),
    [
        (0.1, "0.1 processes want 8 cores"),
        (3.0, "3.0 processes want 8 cores: --set run.threads=5 may be faster here"),
        (40.0, "40.0 processes want 8 cores: --set run.threads=1 may be faster here"),
    ],
)
def test_the_load_of_the_machine(monkeypatch: pytest.MonkeyPatch, load: float, told: str) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    assert doctor._load() == told
