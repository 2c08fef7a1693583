"""What a rate that is left open comes with: clipping, a warm-up, lower rates for wide layers. Three seeds each."""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import eclose
from benchmarks.runner import Entry

SEEDS = (0, 1, 2)
USUAL = {"optimiser.learning_rate": 0.002}
VARIANTS: dict[str, dict[str, Any]] = {
    "rate alone": USUAL,
    "clip, warm-up": {**USUAL, "optimiser.clip": 1.0, "schedule.warmup": 0.1},
    "default": {},
}
CASES: dict[str, dict[str, Any]] = {
    "Poisson, cnn": {"backbone": "cnn"},
    "Poisson, cnn of 8 layers": {"backbone": "cnn", "settings": {"backbone.layers": 8}},
    "Poisson, fno": {"backbone": "fno"},
    "Poisson, unet": {"backbone": "unet"},
    "Burgers, cnn": {"task": "burgers", "backbone": "cnn", "settings": {"task.points": 128, "task.train": 200}},
    "Burgers, fno": {"task": "burgers", "backbone": "fno", "settings": {"task.points": 128, "task.train": 200}},
    "digits, resnet": {"task": "digits", "backbone": "resnet"},
    "digits, lenet": {"task": "digits", "backbone": "lenet"},
}


def poisson(count: int, points: int) -> dict[str, np.ndarray]:
    """Smooth right-hand sides ``x`` and solutions ``y`` of ``-laplace y = x`` with zero boundary, as sums of sines."""
    wave = np.arange(1, points + 1)
    sines = np.sin(np.pi * np.outer(wave / (points + 1), wave))
    eigenvalues = np.pi**2 * (wave[:, None] ** 2 + wave**2)
    parts = np.random.default_rng(0).normal(size=(count, points, points)) * (1 + eigenvalues / 90) ** -1.5
    x, y = (np.einsum("ik,nkl,jl->nij", sines, p, sines, optimize=True) for p in (parts, parts / eigenvalues))
    return {"x": x[:, None].astype(np.float32), "y": y[:, None].astype(np.float32)}


def check(device: torch.device) -> str:
    """The solutions are those of five-point differences, as far as these go."""
    data = poisson(3, 64)
    u = np.pad(data["y"][:, 0], ((0, 0), (1, 1), (1, 1))).astype(float)
    inner = u[:, 1:-1, 1:-1]
    laplace = u[:, 2:, 1:-1] + u[:, :-2, 1:-1] + u[:, 1:-1, 2:] + u[:, 1:-1, :-2] - 4 * inner
    error = np.abs(-laplace * 65**2 - data["x"][:, 0]).max() / np.abs(data["x"]).max()
    assert error < 0.05, error
    return f"-laplace y = x to {error:.3f} by differences; a run that fails is not reported"


def measure(device: torch.device) -> list[str]:
    """One table: validation figures, seed by seed."""
    begun = time.perf_counter()
    data = poisson(384, 32)
    rows = [
        f"| {case} | {' | '.join(_figures(given, data, device, v) for v in VARIANTS)} |"
        for case, given in CASES.items()
    ]
    head = [f"| 30 epochs | {' | '.join(VARIANTS)} |", "|---|" + "---|" * len(VARIANTS)]
    told = "Validation figures of three seeds (relative error; accuracy for digits)."
    marks = "*: ended at a constant, figure of a second training at a tenth of the rate; **: that one did so too."
    return [f"{told} {marks} {time.perf_counter() - begun:.0f} s in all.", "", *head, *rows]


def _figures(given: dict[str, Any], data: dict[str, np.ndarray], device: torch.device, variant: str) -> str:
    figures = []
    for seed in SEEDS:
        with tempfile.TemporaryDirectory() as folder:
            settings = {**given.get("settings", {}), **VARIANTS[variant]}
            source = {} if "task" in given else {"data": data}
            own = {"space": "backbone", **source, **given, "settings": settings, "progress": False}
            result = eclose.search(**own, seed=seed, device=device.type, epochs=30, out=Path(folder) / "run").metrics
        mark = "**" if result["collapsed"] else "*" if result["note"] else ""
        figures.append(f"{result['valid']:.4f}{mark}")
    return ", ".join(figures)


ENTRY = Entry("rates", "The usual learning rate, alone and with what comes with it", check, measure)
