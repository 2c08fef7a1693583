"""Files that are either whole or absent: written beside their place, flushed to disk, then renamed."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def cache_folder() -> Path:
    """``$ECLOSE_CACHE``, or ``eclose`` in the user's cache."""
    if given := os.environ.get("ECLOSE_CACHE"):
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "eclose"


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path to write to; it becomes ``path`` when the block ends well and vanishes otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.touch()
        mode = temporary.stat().st_mode
        yield temporary
        temporary.chmod(mode)  # some writers make files that only the owner can read
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        error.filename = error.filename or str(path)  # a full disk does not say where
        raise
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def fits_memory(bytes: int) -> bool:
    """Whether this machine could hold so much at all."""
    try:
        return bytes <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # a system that does not tell
        return True


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, data: Any) -> None:
    """Write JSON atomically; numbers that are not finite become null, as JSON has no others."""
    write_text(path, json.dumps(plain(data), indent=2, allow_nan=False) + "\n")


def parse_json(text: str) -> Any:
    """JSON that may come from anybody; a ``ValueError`` says what is wrong with it."""
    try:
        return json.loads(text, parse_float=_finite, parse_constant=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0.0:
        raise ValueError(f"{text} is not a finite number")
    return number


def plain(data: Any) -> Any:
    """Nested data with tuples as lists and non-finite numbers as None."""
    if isinstance(data, dict):
        return {str(key): plain(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [plain(value) for value in data]
    if isinstance(data, float) and data - data != 0.0:
        return None
    return data


def _sync_folder(folder: Path) -> None:
    # Without this a power loss may forget the rename; some file systems refuse it, which is no harm.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
