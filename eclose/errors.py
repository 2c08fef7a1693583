"""The errors that eclose raises on purpose: each is one line that says what was wrong and the way out."""

import contextlib
import os
import shlex
from pathlib import Path


def _in_notebook(error: BaseException) -> list[str]:
    """What a notebook shows: the one line, and below it the traceback with the user's own lines."""
    import traceback

    told = traceback.TracebackException.from_exception(error)
    part: traceback.TracebackException | None = told
    while part is not None:
        part.stack = traceback.StackSummary.from_list([frame for frame in part.stack if _of_user(frame.filename)])
        part = part.__cause__ or part.__context__
    return [f"{type(error).__name__}: {error}", "", *"".join(told.format()).splitlines()]


def _of_user(file: str) -> bool:
    ours = file.startswith(os.path.dirname(__file__) + os.sep) or file == contextlib.__file__
    return not ours and f"{os.sep}IPython{os.sep}" not in file


class EcloseError(Exception):
    """A mistake of the user's that costs one line and loses nothing (exit status 2)."""

    _render_traceback_ = _in_notebook


class TaskError(EcloseError):
    """The data does not fit what a task needs."""


class ConfigError(EcloseError):
    """A setting that does not exist or has a value it cannot have."""


class Unsuited(ConfigError):
    """A network, or data, that a space can make nothing of."""


class RunError(EcloseError):
    """A run folder that is missing, foreign, in use or damaged."""


class Diverged(EcloseError):
    """A training whose loss is no longer a finite number."""


class Interrupted(KeyboardInterrupt):
    """The user asked to stop; everything up to here is on disk, and the message says how to go on."""

    _render_traceback_ = _in_notebook


def readable(line: str) -> str:
    """A line without control characters: what stands in files must not steer a terminal."""
    return "".join(sign if sign.isprintable() else "?" for sign in line)


_NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "ALLOC_FAILED")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the memory of the machine or of a GPU was too small, which torch tells in several ways."""
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in _NO_MEMORY)


def is_fault_of_network(error: Exception) -> bool:
    """Whether an error, met while a drawn network is built or run, is its own: files and run folders are not."""
    return not isinstance(error, (OSError, RunError))


def typed(path: Path) -> str:
    """A path as it is typed in a shell: in quotes where it has spaces and the like."""
    return shlex.quote(str(path))
