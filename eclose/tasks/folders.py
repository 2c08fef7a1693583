"""Where downloaded data lies."""

import os
from pathlib import Path

from eclose.runs import cache_folder


def data_folder(given: str = "") -> Path:
    """``--data-dir``, then ``$ECLOSE_DATA``, then ``data`` in the cache folder."""
    chosen = given or os.environ.get("ECLOSE_DATA")
    return Path(chosen).expanduser() if chosen else cache_folder() / "data"
