"""Where data lies: the user's cache for what is generated, and the data folder for what is downloaded."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """``$ECLOSE_CACHE``, or ``eclose`` in the user's cache."""
    if given := os.environ.get("ECLOSE_CACHE"):
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "eclose"


def data_folder(given: str = "") -> Path:
    """``--data-dir``, then ``$ECLOSE_DATA``, then ``data`` in the cache folder."""
    chosen = given or os.environ.get("ECLOSE_DATA")
    return Path(chosen).expanduser() if chosen else cache_folder() / "data"
