"""What a verb has to say, on standard output: words and tables, or one JSON object."""

import contextlib
import json
import os
import sys
from typing import Any


def chatter_to_stderr() -> contextlib.AbstractContextManager[Any]:
    """A user's network may print; standard output is for the answer alone."""
    return contextlib.redirect_stdout(sys.stderr)


def show_answer(data: Any, as_json: bool, text: Any) -> None:
    """``data`` as JSON, or ``text`` for people."""
    if as_json:
        print_json(data)
        return
    console().print(text, soft_wrap=isinstance(text, str), highlight=False)


def console() -> Any:
    """Standard output with colours and tables, loaded only where something is said."""
    from eclose.display.terminal.console import Terminal

    return Terminal()


def print_json(data: Any) -> None:
    """One line, and at once."""
    from eclose.runs.files import plain

    print(json.dumps(plain(data), allow_nan=False), flush=True)


def is_first() -> bool:
    """Under torchrun the first process speaks."""
    return os.environ.get("RANK", "0") == "0"
