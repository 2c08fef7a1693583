"""Every example runs from an empty folder and prints what it promises."""

import re
from pathlib import Path

import pytest

from tests.end_to_end.command import ROOT, python

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_runs(script: Path, tmp_path: Path) -> None:
    text = re.sub(r"minutes=[\d.]+", "minutes=0.05", script.read_text(encoding="utf-8"))
    (tmp_path / script.name).write_text(text, encoding="utf-8")
    done = python(script.name, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
