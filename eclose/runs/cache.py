"""Where eclose keeps what it can make again."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """``$ECLOSE_CACHE``, or ``eclose`` in the user's cache."""
    if given := os.environ.get("ECLOSE_CACHE"):
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "eclose"
