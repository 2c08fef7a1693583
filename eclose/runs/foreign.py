"""Runs from elsewhere: those that this user began on this machine are remembered, any other must keep to its folder.

A run is known by its place and the bytes of its configuration: a copied, moved or edited one is foreign again. With it
are remembered the calls of code that the user agreed to (:mod:`eclose.backbones.consent`).
"""

import contextlib
import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from eclose.errors import RunError
from eclose.runs.files import cache_folder, parse_json, write_json

_NAMES_A_FILE = bytes.fromhex("d9d505f920a163d7")  # how SQLite ends a journal with the name of another one
_IN_PLACE = (".sqlite", ".jsonl", ".lock")  # every other file is replaced as a whole
_BEGUN: dict[str, dict[str, str]] = {}  # by this process: a cache that cannot be written must not break a run


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


def remember(folder: Path, configuration: str, agreed: Mapping[str, str]) -> None:
    """A run, or an exported network, that this user writes into ``folder``."""
    key = _key(folder, configuration)
    _BEGUN[key] = dict(agreed)
    with contextlib.suppress(OSError, RuntimeError):
        write_json(_record(key), {"folder": os.path.realpath(folder), "agreed": dict(agreed)})


def recall(folder: Path, configuration: str) -> dict[str, str] | None:
    """The calls that were agreed to when the run began; None: it did not begin here."""
    key = _key(folder, configuration)
    if key in _BEGUN:
        return _BEGUN[key]
    try:
        record = _record(key)
        if hasattr(os, "getuid") and record.stat().st_uid != os.getuid():
            return None  # a cache that several people share
        agreed = parse_json(record.read_text(encoding="utf-8"))["agreed"]
        return {str(call): str(place) for call, place in agreed.items()}
    except (OSError, RuntimeError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _key(folder: Path, configuration: str) -> str:
    text = f"{os.path.realpath(folder)}\0{configuration}"
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:32]


def _record(key: str) -> Path:
    return cache_folder() / "begun" / f"{key}.json"
