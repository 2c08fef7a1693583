"""What README says about data of one's own is true: its commands run, and say what it shows."""

import re
import sys
from pathlib import Path

import pytest

from eclose.cli import main
from tests.end_to_end.command import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(title: str) -> list[str]:
    section = README.split(f"\n## {title}\n")[1].split("\n## ")[0]
    found = re.findall(r"```(?:python)?\n(.*?)```", section, re.DOTALL)
    return [re.sub(r"minutes([ =])\d+", r"minutes\g<1>0.05", block) for block in found]


@pytest.fixture(autouse=True)
def _fresh_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("examples").symlink_to(ROOT / "examples")


def test_your_own_data(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    commands, output = blocks("Your own data")
    for line in commands.splitlines():
        monkeypatch.setattr(sys, "argv", line.split())
        assert main() == 0, line
    said = "".join(capsys.readouterr())
    for line in output.splitlines():
        if line.startswith("to beat"):  # a shorter run has fewer random filters
            assert line.partition(", random-filter")[0] in said
        elif line.startswith(("digits.npz", "wrote", "run", "report")):
            assert line in said.splitlines()
        elif line.startswith("accuracy"):
            assert line.split("against")[1] in said


def test_python(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = blocks("Python")
    exec(compile(block, "README.md", "exec"), {})
    figures = capsys.readouterr().out.split()
    assert 0.3 < float(figures[-1]) <= 1
