"""How progress leaves the library: named events with plain fields, sent to whoever listens.

Users read of them in docs/guide/python.md.

=============  ==================================================================================
event          fields
=============  ==================================================================================
``prepare``    what, done, total: data being generated or read
``data``       text (how the data was read), doubts (texts), signature, layout: before anything is built
``comparison`` path, run, place, of: a search of a comparison begins or goes on
``run``        path, task, space, strategy
``to_beat``    rows (name, valid of each): predictors that need no training
``scored``     candidates (their scores), chosen, seconds: networks compared before one of them becomes a trial
``begin``      trial, role, name, place, of, best, ended, running: a worker takes a trial; ``ended`` trials of the
               search have ended, ``running`` others are under way
``trial``      those of ``begin``, epochs, steps, parameters: a training starts or goes on; it is number ``place``
               of ``of``, ``best`` is the best validation value so far
``step``       trial, epoch, step, steps: no more than ten a second
``epoch``      trial, epoch, epochs, train_loss, valid, rate, seconds; ``seen``, where time ended it early
``trial_end``  those of ``begin``, state, reason, collapsed, note and the figures of the trial
``result``     the content of ``result.json``
``notice``     text: what a user should know, and what comes of it
=============  ==================================================================================
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Listener = Callable[[str, dict[str, Any]], None]


@dataclass
class Events:
    """Fan-out of events to listeners."""

    listeners: list[Listener] = field(default_factory=list)

    def emit(self, event: str, **fields: Any) -> None:
        """Tell every listener."""
        for listener in self.listeners:
            listener(event, fields)
