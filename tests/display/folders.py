"""Run folders with made-up numbers, written by the classes that write the real ones."""

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from eclose.config import Config
from eclose.runs import Run, Trial
from eclose.signature import Signature
from eclose.train import save_tensors

METRICS = {
    "classification": ("accuracy", "max"),
    "regression": ("mse", "min"),
    "dense": ("relative_l2", "min"),
    "segmentation": ("accuracy", "max"),
}
SPACES = {1: (48,), 2: (20, 24), 3: (6, 12, 10)}
ABOUT = {"samples": {"train": 1000, "val": 100, "test": 200}, "viscosity": 0.0625, "constant_mode": True}


def history(epochs: int, start: float, end: float, goal: str, seed: int = 0) -> list[dict[str, Any]]:
    """A training that comes down from ``start`` to ``end``, not quite smoothly."""
    noise = torch.randn(epochs, generator=torch.Generator().manual_seed(seed)).tolist()
    entries = []
    for epoch in range(1, epochs + 1):
        loss = end + (start - end) * math.exp(-5 * epoch / epochs) * (1 + 0.1 * noise[epoch - 1])
        valid = 1 - loss if goal == "max" else 1.2 * loss
        rate = 0.5 * (1 + math.cos(math.pi * epoch / epochs))
        entries.append({"epoch": epoch, "train_loss": loss, "rate": rate, "valid": valid, "seconds": 2.0 * epoch})
    return entries


def trial(number: int, role: str, name: str, **changes: Any) -> Trial:
    """A finished training, unless ``changes`` say otherwise."""
    values: dict[str, Any] = {
        "state": "done",
        "valid": 0.02 + 0.001 * number,
        "test": None if role == "search" and number else 0.0123 + 0.0022 * number,
        "parameters": 1_234_567 * (number + 1),
        "flops": 98_765_432,
        "epochs": 30,
        "seconds": 200.4,
        "history": history(30, 1.0, 0.02 + 0.001 * number, "min", number),
    }
    return Trial(number, role, name, "backbone", {}, f"{number:016x}", number, **{**values, **changes})


def trials(kind: str, baselines: tuple[str, ...], epochs: int = 0) -> list[Trial]:
    """The found network ``cnn`` and baselines, each a little worse than the one before."""
    goal = METRICS[kind][1]
    rows = []
    for number, name in enumerate(("cnn", *baselines)):
        end = 0.0123 + 0.0022 * number
        figures = {"valid": end * 1.1, "test": end} if goal == "min" else {"valid": 1 - end * 1.1, "test": 1 - end}
        rows.append(
            trial(
                number,
                "baseline" if number else "search",
                name,
                history=history(epochs, 1.0, end, goal, number),
                **figures,
            )
        )
    return rows


def result(rows: list[Trial], signature: Signature | None, kind: str, **changes: Any) -> dict[str, Any]:
    """The content of ``result.json``."""
    found, *baselines = rows
    figures = ("name", "state", "reason", "valid", "test", "parameters", "seconds")
    return {
        "format": 1,
        "task": "burgers",
        "space": "backbone",
        "strategy": "train",
        "seed": 7,
        "metric": dict(zip(("name", "goal"), METRICS[kind], strict=True)),
        **{key: getattr(found, key) for key in ("name", "valid", "test", "parameters", "flops", "epochs")},
        "trials": 1,
        "seconds": 401.0,
        "device": "cpu (2 threads)",
        "versions": {"eclose": "0.1.0", "torch": "2.13.0", "numpy": "2.4.6", "python": "3.11.7"},
        "signature": signature.as_dict() if signature else None,
        "about": ABOUT,
        "baselines": [{key: getattr(row, key) for key in figures} for row in baselines],
        "run": "/home/someone/runs/somewhere",
        **changes,
    }


def samples(signature: Signature, names: tuple[str, ...], count: int) -> dict[str, Tensor]:
    """Smooth inputs and targets, and predictions that come close."""
    generator = torch.Generator().manual_seed(1)

    def smooth(channels: int) -> Tensor:
        grids = torch.meshgrid(*(torch.linspace(0, 1, size) for size in signature.sizes), indexing="ij")
        total = torch.zeros(count, channels, *signature.sizes)
        for _ in range(4):
            phase, size = torch.randn(2, count, channels, *([1] * signature.axes), generator=generator)
            angle = sum((torch.randint(1, 4, (1,), generator=generator) * 2 * math.pi * grid for grid in grids), phase)
            total = total + size * torch.sin(angle)
        return total

    if signature.tokens:
        x = torch.randint(signature.vocabulary, (count, *signature.sizes), generator=generator)
    else:
        x = smooth(signature.channels)
    noise = [0.02 * (n + 1) for n in range(len(names))]
    if signature.kind == "dense":
        y = smooth(signature.outputs)
        guesses = [y + n * smooth(signature.outputs) for n in noise]
    elif signature.kind == "segmentation":
        scores = smooth(signature.outputs)
        y = scores.argmax(1)
        guesses = [scores + 5 * n * smooth(signature.outputs) for n in noise]
    elif signature.kind == "classification":
        y = torch.randint(signature.outputs, (count,), generator=generator)
        right = torch.nn.functional.one_hot(y, signature.outputs).float()
        guesses = [3 * right + 20 * n * torch.randn(right.shape, generator=generator) for n in noise]
    else:
        y = torch.randn(count, signature.outputs, generator=generator)
        guesses = [y + n * torch.randn(y.shape, generator=generator) for n in noise]
    return {"x": x, "y": y, **{f"prediction.{name}": guess for name, guess in zip(names, guesses, strict=True)}}


def config(kind: str, signature: Signature | None = None, **changes: Any) -> Config:
    """A complete configuration of the kind."""
    return (
        Config()
        .with_values({"train.epochs": 30})
        .with_values(
            {
                "task.name": "burgers",
                "task.kind": kind,
                "task.metric": METRICS[kind][0],
                "task.tokens": bool(signature and signature.tokens),
                "task.viscosity": 0.0625,
                "backbone.name": "cnn",
                "backbone.width": 32,
                "strategy.name": "train",
                "optimiser.learning_rate": 0.002,
                "train.batch": 20,
                "run.seed": 7,
                "run.device": "cpu",
                **changes,
            }
        )
    )


def finished_run(
    path: Path,
    signature: Signature,
    baselines: tuple[str, ...] = ("fno",),
    changes: dict[str, Any] | None = None,
    shown: int = 1,
    epochs: int = 0,
    **options: Any,
) -> Run:
    """A run that has ended; ``changes`` are for its result, ``options`` for its settings."""
    settings = {key.replace("__", "."): value for key, value in options.items()}
    run = Run.create(path, config(signature.kind, signature, **{"compare.baselines": baselines, **settings}))
    rows = trials(signature.kind, baselines, epochs)
    for row in rows:
        run.table.put(row)
    save_tensors(path / "samples.safetensors", samples(signature, ("cnn", *baselines), shown))
    run.write_result(result(rows, signature, signature.kind, **(changes or {})))
    return run
