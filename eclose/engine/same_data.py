"""A run is resumed, and helped by workers, with the data it began with."""

from eclose.errors import RunError
from eclose.runs import Run
from eclose.runs.files import parse_json, plain
from eclose.tasks import Task, fingerprint


def check_same_data(run: Run, task: Task) -> None:
    """Refuse a task whose data is not that of the run."""
    path = run.path / "data.json"
    try:
        known = parse_json(path.read_text(encoding="utf-8")) if path.is_file() else None
    except ValueError as error:
        raise RunError(f"{path} is damaged ({error}): restore it from a copy, or start a new run") from None
    if known is not None and known != plain(fingerprint(task)):
        raise RunError(f"the data of {run.path} has changed since the run began: restore it, or start a new run")
