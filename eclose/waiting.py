"""How long threads of OpenMP stay awake while they wait for one another.

Those of GNU's library, which torch brings on Linux, spin for milliseconds at every end of a parallel part. That costs
nothing on an idle machine; beside another process they spin in the way of the very thread that they wait for. After a
short while they had better sleep (`benchmarks wait-policy`). The library reads its settings once, when torch is loaded.
"""

import os
import sys
from pathlib import Path

SPINS = "1000"
"""Turns of a waiting loop: some hundredths of a millisecond, three hundred times fewer than by default."""

SETTINGS = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


def wait_briefly() -> None:
    """Lets threads of this process, unless torch is loaded, and of its children wait briefly; a user's choice stays."""
    if not any(name in os.environ for name in SETTINGS):
        os.environ["GOMP_SPINCOUNT"] = SPINS


def waiting() -> str:
    """How threads of this process wait, in words, once torch is loaded."""
    maps = Path("/proc/self/maps")
    if sys.platform != "linux" or not maps.exists() or "libgomp" not in maps.read_text():
        return "as torch's OpenMP library has it (not GNU's)"
    found = [f"{name}={os.environ[name]}" for name in SETTINGS if name in os.environ]
    if not found:
        return f"awake for milliseconds, slow on a busy machine: set GOMP_SPINCOUNT={SPINS} before Python starts"
    return ", ".join(found)
