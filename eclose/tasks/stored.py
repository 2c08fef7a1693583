"""Files of the data folder, for tasks that need particular ones."""

from pathlib import Path

from eclose.errors import TaskError
from eclose.tasks.files import Array, read_arrays
from eclose.tasks.source import Context


def stored_file(context: Context, relative: str, content: str) -> Path:
    """Where the file lies; the error says what to put there."""
    path = context.data_folder / relative
    if not path.is_file():
        raise TaskError(
            f"{path} is missing: put {relative} ({content}) into the data folder, "
            "or name another folder with --data-dir or $ECLOSE_DATA"
        )
    return path


def stored_arrays(path: Path, names: tuple[str, ...]) -> dict[str, Array]:
    """All arrays of ``names``."""
    data = read_arrays(path, names)
    if missing := [name for name in names if name not in data]:
        raise TaskError(f"{path} has no array '{missing[0]}': it is another file than the task needs")
    return data
