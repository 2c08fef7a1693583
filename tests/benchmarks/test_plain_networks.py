"""The benchmark of plain networks runs on a CPU, compares loops that do the same, and writes its figures."""

import json

import pytest
import torch

from benchmarks import plain_networks, runner

CPU = torch.device("cpu")


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(plain_networks, "CASES", tuple(case for case in plain_networks.CASES if case.small))


def test_figures(small, tmp_path, capsys):
    path = runner.run(plain_networks.ENTRY, CPU, tmp_path)
    assert "| eclose, float32 |" in path.read_text()
    figures = json.loads(path.with_suffix(".json").read_text())
    assert {"resnet", "unet"} <= set(figures)
    for found in figures.values():
        ours, plain = (found["seconds_a_step"][f"{loop}, float32"] for loop in ("eclose", "plain"))
        assert found["ratio"] == pytest.approx(ours / plain)


def test_loops_that_do_not_do_the_same_are_refused(small, monkeypatch):
    batches = plain_networks.Plain._batches
    monkeypatch.setattr(plain_networks.Plain, "_batches", lambda loop: list(batches(loop))[::2])
    with pytest.raises(AssertionError, match="the loops disagree"):
        plain_networks.check(CPU)


def test_networks_that_are_not_there_are_left_out(monkeypatch):
    unknown = plain_networks.Case("perceiver", (8,), 1, 8, {}, {})
    monkeypatch.setattr(plain_networks, "CASES", (unknown, *plain_networks.CASES[:1]))
    assert [case.network for case in plain_networks.cases(CPU)] == ["resnet"]
