"""``python -m eclose`` is ``eclose``; torchrun needs it."""

from eclose.cli import run

run()
