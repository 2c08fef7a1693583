"""What ends a command early: one line on standard error that says how to go on, and a status."""

import os
import shlex
import sys
from typing import Any

from eclose.cli.answers import is_first, print_json
from eclose.errors import readable

STOPPED = 130  # also what typer makes of an interruption


class _LastRun:
    """Remembers how to go on with what is under way, for the message after an interruption."""

    command = ""

    def __call__(self, event: str, fields: dict[str, Any]) -> None:
        if event == "comparison":
            self.command = f"eclose compare {shlex.quote(fields['path'])}"
        elif event == "run" and not self.command.startswith("eclose compare"):
            self.command = f"eclose resume {shlex.quote(fields['path'])}"


last_run = _LastRun()


def fail(message: str, status: int) -> int:
    """Say what was wrong; the status."""
    line = " ".join(message.split())
    if is_first():
        print(f"eclose: {readable(line)}", file=sys.stderr)
        answer_error(line, status)
    return status


def answer_error(line: str, status: int) -> None:
    """With ``--json`` a failure is an object, too."""
    # Read from the words themselves: what went wrong may be that they could not be understood.
    if "--json" in sys.argv:
        try:
            print_json({"error": line, "status": status})
        except OSError:  # there is nobody to tell, and Python must not try again when it ends
            sys.stdout = None


def stopped() -> int:
    """Say how to go on; the status."""
    way_out = f"; go on with: {last_run.command}" if last_run.command else ""
    return fail(f"stopped{way_out}", STOPPED)


def interrupted(number: int, frame: Any) -> None:
    """Ctrl-C. While torch is being loaded an exception would end in its C++ parts, which abort."""
    if getattr(getattr(sys.modules.get("torch"), "__spec__", None), "_initializing", False):
        status = stopped()
        sys.stdout.flush()
        os._exit(status)
    raise KeyboardInterrupt
