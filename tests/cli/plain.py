"""A search that takes a second, and the one line of a mistake."""

import contextlib
import resource
from collections.abc import Iterator

PLAIN = ("search", "--space", "backbone")


def small() -> list[str]:
    return ["--set", "backbone.width=4", "--set", "run.threads=1"]


def only_line(err: str) -> str:
    lines = [line for line in err.splitlines() if line.startswith("eclose: ")]
    assert len(lines) == 1, err
    assert err.splitlines()[-1] == lines[0], err
    assert "Traceback" not in err
    return lines[0]


@contextlib.contextmanager
def full_disk(room: int) -> Iterator[None]:
    """A limit on file sizes stands in for it: writing fails in the same place."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
