"""A run folder that did not begin here must not reach out of itself."""

import os
import stat
from pathlib import Path

from eclose.errors import RunError

_NAMES_A_FILE = bytes.fromhex("d9d505f920a163d7")  # how SQLite ends a journal with the name of another one
_IN_PLACE = (".sqlite", ".jsonl", ".lock")  # every other file is replaced as a whole


def check_foreign(folder: Path) -> None:
    """Refuse a folder with links out of it, or with anything that is neither a file nor a folder."""
    root = os.path.realpath(folder)
    for place, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(place, name)
            if problem := _problem(path, root):
                shown = folder / path.relative_to(root)
                raise RunError(f"{shown} {problem} (this run did not begin here, so it must keep to its folder)")


def _problem(path: Path, root: str) -> str:
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        target = os.path.realpath(path)
        inside = os.path.commonpath((target, root)) == root
        return "" if inside else f"is a link out of its run folder, to {target}: put what is meant in its place"
    if stat.S_ISDIR(status.st_mode):
        return ""
    if not stat.S_ISREG(status.st_mode):
        return "is neither a file nor a folder: delete it"
    if path.name.endswith("-journal") and _end_of(path) == _NAMES_A_FILE:  # which SQLite may delete
        return "is a journal of SQLite that names another file: delete it"
    if status.st_nlink > 1 and path.name.endswith(_IN_PLACE):
        return "is the same file as another one (a hard link): put a copy in its place"
    return ""


def _end_of(path: Path) -> bytes:
    with open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - len(_NAMES_A_FILE)))
        return file.read()
