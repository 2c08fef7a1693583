"""Variants at the same cost, and the table of their figures."""

import json
import sys
import time

import pytest
import torch

from benchmarks import dnarch_quality
from benchmarks.dnarch_quality import VARIANTS, Plan, run, table
from benchmarks.rows import read_rows

TINY = (
    ("task.points", 8),
    ("task.train", 6),
    ("task.val", 3),
    ("task.test", 3),
    ("backbone.hidden", 4),
    ("train.batch", 3),
    ("run.threads", 1),
)


def row(variant, seed, test, complexity=1.0):
    metric = {"name": "accuracy", "goal": "max"}
    figures = {"parameters": 10, "epochs": 3, "seconds": 5.0, "metric": metric}
    return {"variant": variant, "seed": seed, "test": test, "complexity": complexity, "target": 1.0, **figures}


def test_recipes_are_there():
    assert "a training that fails is not reported" in dnarch_quality.check(torch.device("cpu"))


def test_the_page(tmp_path, monkeypatch, capsys):
    """Of rows that are all there already: nothing is trained."""
    rows = [{**row(variant, 0, 0.5), "set": "CIFAR-10", "machine": ["- date: today"]} for variant in VARIANTS]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    given = ["--sets", "CIFAR-10", "--seeds", "0", "--device", "cpu", "--side", "1"]
    places = ["--rows", str(tmp_path / "rows.jsonl"), "--to", str(tmp_path / "results")]
    monkeypatch.setattr(sys, "argv", ["dnarch_quality", *given, *places])
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # a run sets it for its processes
    dnarch_quality.main()
    (page,) = (tmp_path / "results").iterdir()
    assert page.name.endswith("-dnarch-quality-cpu.md")
    text = page.read_text()
    assert text.startswith("# DNArch: what learning sizes brings at the same cost\n\n- date: today\n")
    assert "| K+R+W+D | 0.5000 | 0.5000 | 1.000 | 10 | 3 | 5 |" in text
    assert "- K+R+W+D is at least as good as global kernels: +0.0000 in its favour, mean of 1 seeds" in text
    assert "all there" in capsys.readouterr().out


@pytest.mark.parametrize("target", [0.5, 1.0, 1.7])
def test_networks_without_masks_cost_what_the_others_may(target):
    width = dnarch_quality._width(target, 1024, 32, 4)
    cost = dnarch_quality._cost(width, 1024, 4) / dnarch_quality._cost(32, 1024, 4)
    assert cost == pytest.approx(target, rel=dnarch_quality.NEAR)
    assert dnarch_quality._width(1.0, 1024, 32, 4) == 32


def test_the_table_says_whether_the_goals_are_met():
    rows = [row("global kernels", 0, 0.5), row("global kernels", 1, 0.6), row("K+R+W+D", 0, 0.7, 0.97)]
    lines = table(rows, "CIFAR-10")
    assert lines[4].startswith("| global kernels | 0.5500 ± 0.0707 | 0.5000, 0.6000 | 1.000, 1.000 | 10 |")
    assert lines[-2:] == [
        "- costs are within 5% of the target: K+R+W+D, seed 0, is 3.0% off",
        "- K+R+W+D is at least as good as global kernels: +0.2000 in its favour, mean of 1 seeds",
    ]
    worse = table([row("global kernels", 0, 0.5), row("K+R+W+D", 0, 0.4, 1.2)], "CIFAR-10")
    assert worse[-2].startswith("- costs are NOT within 5%")
    assert worse[-1] == "- K+R+W+D is WORSE than global kernels: -0.1000 in its favour, mean of 1 seeds"


def test_variants_have_the_same_cost(tmp_path):
    plan = Plan(0.5, 1, 0, "cpu", str(tmp_path), time.time() + 300, TINY)
    variants = ("global kernels", "K", "K+R+W+D")
    found = {variant: dnarch_quality.train(("Darcy", variant, 0), plan) for variant in variants}
    assert {variant: row["complexity"] for variant, row in found.items()} == pytest.approx(
        dict.fromkeys(variants, 0.5), rel=dnarch_quality.NEAR
    )
    assert found["global kernels"]["width"] == found["K"]["width"] < found["K+R+W+D"]["width"] == 32
    rows = tmp_path / "rows.jsonl"
    late = Plan(0.5, 1, 0, "cpu", str(tmp_path), time.time(), TINY)
    run([("Darcy", "K", 0)], late, 1, rows)
    assert read_rows([rows]) == []  # there was no time for it
