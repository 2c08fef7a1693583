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
    name = "runs/2026-11-16-a-data-set-with-a-long-name"
    shutil.copytree("runs/one", name)
    assert name in call("show", "runs")[1], "to be copied"


def test_doctor(call: Call) -> None:
    status, out, _ = call("doctor", "--json")
    assert status == 0
    facts = json.loads(out)
    assert facts["problems"] == []
    assert facts["torch"] == torch.__version__.split("+")[0] or facts["torch"] == torch.__version__
