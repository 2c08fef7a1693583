"""Which runs this user began on this machine, remembered in the user's cache.

A run is known by its place and the bytes of its configuration: a copied, moved or edited one is foreign again. With it
are remembered the calls of code that the user agreed to (:mod:`eclose.backbones.consent`).
"""

import contextlib
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from eclose.runs.files import cache_folder, parse_json, write_json

_BEGUN: dict[str, dict[str, str]] = {}  # by this process: a cache that cannot be written must not break a run


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
