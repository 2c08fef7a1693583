"""A run is resumed, and helped by workers, with the data it began with; a few samples tell whether it is."""

import hashlib
from typing import Any

import torch

from eclose.errors import RunError
from eclose.runs import Run
from eclose.runs.files import parse_json, plain
from eclose.tasks.splits import spread
from eclose.tasks.task import Split, Task

_SAMPLES = 32  # of each split, evenly spread


def fingerprint(task: Task) -> dict[str, Any]:
    """Plain data that is equal for equal tasks, without reading all of them."""
    splits = {name: {"samples": len(split), "hash": _hash(split)} for name, split in task.splits.items()}
    return {"signature": task.signature.as_dict(), "splits": splits}


def _hash(split: Split) -> str:
    rows = spread(len(split), _SAMPLES)
    digest = hashlib.sha256()
    for values in split.take(rows):
        digest.update(f"{values.dtype} {tuple(values.shape)}".encode())
        digest.update(values.contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def check_same_data(run: Run, task: Task) -> None:
    """Refuse a task whose data is not that of the run."""
    path = run.path / "data.json"
    try:
        known = parse_json(path.read_text(encoding="utf-8")) if path.is_file() else None
    except ValueError as error:
        raise RunError(f"{path} is damaged ({error}): restore it from a copy, or start a new run") from None
    if known is not None and known != plain(fingerprint(task)):
        raise RunError(f"the data of {run.path} has changed since the run began: restore it, or start a new run")
