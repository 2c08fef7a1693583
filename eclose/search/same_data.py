"""A run is resumed, and helped by workers, with the data it began with."""

import json

from eclose.errors import RunError
from eclose.runs import Run
from eclose.runs.files import plain
from eclose.tasks import Task, fingerprint


def check_same_data(run: Run, task: Task) -> None:
    """Refuse a task whose data is not that of the run."""
    path = run.path / "data.json"
    if path.is_file() and json.loads(path.read_text(encoding="utf-8")) != plain(fingerprint(task)):
        raise RunError(f"the data of {run.path} has changed since the run began: restore it, or start a new run")
