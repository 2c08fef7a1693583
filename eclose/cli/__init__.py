"""The command line: typer verbs, each a few lines over :mod:`eclose.api`.

Exit status: 0 done, 2 the user's mistake (one line on stderr), 130 stopped by Ctrl-C or SIGTERM, 1 anything else.
With ``--json`` one JSON object goes to stdout and nothing else does: the answer, or ``{"error", "status"}``.
"""

from eclose.cli.entry import main, run

__all__ = ["main", "run"]
