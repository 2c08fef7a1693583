"""Processes of this machine, as /proc tells."""

import time
from pathlib import Path


def descendants(pid: int) -> set[int]:
    """All processes that ``pid`` has started, directly or not."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        text = _read(stat)
        if text:
            parents[int(stat.parent.name)] = int(text.rpartition(")")[2].split()[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found and child not in found}:
        found |= more
    return found - {pid}


def named(pids: set[int], name: str) -> list[int]:
    """Those whose command line begins with ``name``."""
    return [pid for pid in pids if _read(Path(f"/proc/{pid}/cmdline")).startswith(name)]


def wait_until_gone(pids: set[int], seconds: float = 30) -> set[int]:
    """Those that still run after so long; zombies do not."""
    end = time.monotonic() + seconds
    while (left := {pid for pid in pids if _runs(pid)}) and time.monotonic() < end:
        time.sleep(0.1)
    return left


def _runs(pid: int) -> bool:
    state = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return bool(state) and state[0] != "Z"


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it has ended
        return ""
