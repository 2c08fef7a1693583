"""Lists of what there is, and of what this machine offers."""

import json
import shutil
import tomllib
from pathlib import Path

import pytest
import torch

from tests.cli.plain import PLAIN, small
from tests.end_to_end.command import Call


@pytest.mark.parametrize("what", ["tasks", "spaces", "backbones", "recipes"])
def test_show_lists(call: Call, what: str) -> None:
    status, out, _ = call("show", what, "--json")
    assert status == 0
    assert json.loads(out)[what]
    assert call("show", what)[0] == 0


def test_show_lists_what_a_user_sets(call: Call, signals: Path) -> None:
    """Not what a run measures for itself; and numbers as they are used."""
    options = json.loads(call("show", "spaces", "--json")[1])["spaces"]["dnarch"]["options"]
    assert "weighing" not in options
    assert options["largest"] == 2.0
    assert "weighing" not in call("show", "spaces")[1]
    status, _, err = call("search", "--data", signals, "--space", "dnarch", "--set", "space.large=3")
    assert status == 2
    assert "did you mean 'largest'" in err
    assert "weighing" not in err


def test_options_are_shown_as_they_are_set(call: Call, signals: Path) -> None:
    shown = call("show", "spaces")[1]
    assert "--set space.NAME=VALUE" in shown
    assert "depth=[1, 1, 1], bias=true" in shown
    options = json.loads(call("show", "spaces", "--json")[1])["spaces"]["xd"]["options"]
    assert options["depth"] == [1, 1, 1]


def test_a_wrong_name_does_not_call_the_roll(call: Call) -> None:
    for arguments in (["show", "xd-burgers-quik"], ["search", "--recipe", "xd-burgers-quik"]):
        status, _, err = call(*arguments)
        assert status == 2
        assert "did you mean 'xd-burgers-quick'?" in err
        assert "`eclose show recipes`" in err
        assert len(err) < 250


def test_show_a_recipe(call: Call) -> None:
    status, out, _ = call("show", "xd-burgers-quick")
    assert status == 0
    settings = tomllib.loads(out)
    assert settings["space"]["name"] == "xd", "what its base says is there too"
    data = json.loads(call("show", "xd-burgers-quick", "--json")[1])
    assert {"about": data["about"], **data["settings"]} == settings
    Path("mine.toml").write_text(out)
    assert json.loads(call("show", "mine.toml", "--json")[1])["settings"] == data["settings"]


def test_show_runs(call: Call, signals: Path, tmp_path: Path) -> None:
    assert "no runs in" in call("show", "runs")[1]
    assert call(*PLAIN, "--data", signals, "--epochs", 1, "--out", "runs/one", *small())[0] == 0
    shutil.copytree("runs/one", "runs/two")
    Path("runs/two/result.json").unlink()
    shutil.copytree("runs/two", "runs/three")
    Path("runs/three/config.toml").write_text("no")
    rows = json.loads(call("show", "runs", "--json")[1])["runs"]
    assert {row["run"]: row["state"] for row in rows} == {
        "runs/one": "finished",
        "runs/two": "stopped",
        "runs/three": "damaged",
    }
    result = json.loads(Path("runs/one/result.json").read_text())
    (one,) = (row for row in rows if row["run"] == "runs/one")
    assert (one["task"], one["space"], one["valid"], one["test"]) == (
        "signals", "backbone", result["valid"], result["test"],
    )  # fmt: skip
    from eclose.runs import Run

    with Run.open(Path("runs/two")).locked():
        status, out, _ = call("show", "runs")
    assert status == 0
    assert "running" in out
    dates = [row["begun"] for row in rows]
    assert all(date[5:] in out for date in dates), "whole, in 80 columns"
    name = "runs/2026-11-16-a-data-set-with-a-long-name"
    shutil.copytree("runs/one", name)
    assert name in call("show", "runs")[1], "to be copied"


def test_doctor(call: Call) -> None:
    status, out, _ = call("doctor", "--json")
    assert status == 0
    facts = json.loads(out)
    assert facts["problems"] == []
    assert facts["bfloat16"].startswith("a convolution takes ")
    assert facts["torch"] == torch.__version__.split("+")[0] or facts["torch"] == torch.__version__
