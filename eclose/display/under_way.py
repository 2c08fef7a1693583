"""Trainings that have not ended: the table knows nothing of their epochs yet, the log and the checkpoint do."""

import json
from dataclasses import replace
from typing import Any

from eclose.display.networks import Metric
from eclose.display.wording import finite
from eclose.errors import RunError
from eclose.runs import Run, Trial
from eclose.train.checkpoint import load_progress


def trials_so_far(run: Run, metric: Metric) -> list[Trial]:
    """The trial table, with the epochs so far of trainings that are under way or were stopped."""
    trials = run.table.all()
    if all(trial.state != "running" for trial in trials):
        return trials
    logged = _logged(run)
    return [_filled(run, trial, logged, metric) if trial.state == "running" else trial for trial in trials]


def _filled(run: Run, trial: Trial, logged: dict[int, dict[int, dict[str, Any]]], metric: Metric) -> Trial:
    # A worker tells its epochs when its training has ended; until then only its checkpoint has them.
    history = max(list(logged.get(trial.number, {}).values()), _saved(run, trial), key=len)
    history = sorted(history, key=lambda entry: entry["epoch"])
    if not history:
        return trial
    valid = metric.best(entry.get("valid") for entry in history)
    last = history[-1]
    return replace(trial, history=history, epochs=last["epoch"], seconds=last.get("seconds"), valid=valid)


def _logged(run: Run) -> dict[int, dict[int, dict[str, Any]]]:
    """The epochs of each trial by their number: those after a checkpoint are trained, and told, once more."""
    epochs: dict[int, dict[int, dict[str, Any]]] = {}
    file = run.path / "events.jsonl"
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines() if file.is_file() else ():
        try:
            fields = json.loads(line)
        except ValueError:  # the last line of a run that was killed
            continue
        if isinstance(fields, dict) and fields.get("event") == "epoch" and _whole(fields):
            epochs.setdefault(fields["trial"], {})[fields["epoch"]] = fields
    return epochs


def _saved(run: Run, trial: Trial) -> list[dict[str, Any]]:
    try:
        progress = load_progress(run.trial_folder(trial.number) / "checkpoint.safetensors")
    except RunError:
        return []
    return [entry for entry in progress.get("history", []) if isinstance(entry, dict) and "epoch" in entry]


def _whole(fields: dict[str, Any]) -> bool:
    return all(isinstance(fields.get(key), int) and finite(fields[key]) for key in ("trial", "epoch"))
