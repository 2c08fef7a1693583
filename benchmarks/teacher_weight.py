"""How much the attention of a teacher should count: one small network under one teacher, by its weight."""

import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch

import eclose
from benchmarks.runner import Entry
from eclose.train.teacher import attention, distance

WEIGHTS = (0.0, 0.3, 1.0, 3.0, 10.0, 100.0, 1000.0)
SEEDS = (0, 1, 2)
COMMON: dict[str, Any] = {
    **{"optimiser.name": "sgd", "optimiser.learning_rate": 0.05, "optimiser.momentum": 0.9, "train.keep": "last"},
    **{"train.batch": 32, "run.checkpoint_seconds": 1e6},
}
TEACHER = {**COMMON, "backbone.depth": 11, "backbone.alpha": 24, "train.epochs": 12}
STUDENT = {**COMMON, "backbone.width": 4, "train.epochs": 8, "task.subset": 400}


def check(device: torch.device) -> str:
    """The distance of two maps without a common point is the largest there is."""
    one, other = (torch.zeros(1, 2, 4, 4, device=device) for _ in range(2))
    one[..., 0], other[..., 1] = 3.0, 2.0
    far = float(distance(attention(one), attention(other)))
    assert abs(far - 0.5**0.5) < 1e-6, far
    return f"maps without a common point are {far:.4f} apart"


def measure(device: torch.device) -> list[str]:
    """ResNet-20 of 4 channels on 400 digits."""

    def train(folder: Path, network: str, settings: dict[str, Any], **more: Any) -> dict[str, Any]:
        settings = {**settings, "run.device": device.type}
        arguments = {"task": "digits", "space": "backbone", "backbone": network, "progress": False}
        return eclose.search(**arguments, settings=settings, out=folder, **more).metrics

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        teacher = train(folder / "teacher", "pyramidnet", TEACHER)
        lines = [
            f"digits, 400 training samples, 8 epochs; the teacher saw all 1197 and has {teacher['test']:.4f} "
            f"on the test samples. Mean ± standard deviation of {len(SEEDS)} seeds.",
            "",
            "| weight | test accuracy | each | distance from the teacher |",
            "|---|---|---|---|",
        ]
        for weight in WEIGHTS:
            settings = {**STUDENT, "teacher.weight": weight}
            rows = [
                train(folder / f"{weight}-{seed}", "resnet20", settings, seed=seed, teacher=folder / "teacher")
                for seed in SEEDS
            ]
            tests = [row["test"] for row in rows]
            each = ", ".join(f"{test:.4f}" for test in tests)
            spread = f"{statistics.mean(tests):.4f} ± {statistics.stdev(tests):.4f}"
            far = statistics.mean(row["attention"] for row in rows)
            lines.append(f"| {weight:g} | {spread} | {each} | {far:.3f} |")
    return lines


ENTRY = Entry("teacher-weight", "The weight of a teacher's attention", check, measure)
