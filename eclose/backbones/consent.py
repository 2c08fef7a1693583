"""Consent: which code that is named as ``package.module:attribute`` may run.

Names of code stand in files, and files come from anywhere. So no such name is imported or called unless the user
agreed: by typing it in this call, by handing in the object, by trusting all that the files name, or by having begun
the run here (:mod:`eclose.runs.foreign`).
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Consent:
    """What the user agreed to.

    ``code`` has references, which may be called with any options, and calls (see :func:`call_of`), which may be made
    as they are; each with the folder that is searched for them before the installed packages, empty for none.
    """

    code: Mapping[str, str] = field(default_factory=dict)
    objects: Mapping[str, Any] = field(default_factory=dict)  # in the places of references, which are not imported
    everything: bool = False  # --trust
    called: dict[str, str] = field(default_factory=dict)  # the calls that were made, with the folder of their code

    def folder_for(self, reference: str, options: Mapping[str, Any]) -> str | None:
        """The folder that is searched for the code of a reference, empty for none; None: it must not be called."""
        for agreed in (reference, call_of(reference, options)):
            if agreed in self.code:
                return self.code[agreed]
        return "" if self.everything else None


def call_of(reference: str, options: Mapping[str, Any]) -> str:
    """A reference together with its options, as text."""
    return f"{reference} {json.dumps(options, sort_keys=True, default=str)}"


_CONSENT: ContextVar[Consent] = ContextVar("consent", default=Consent())  # noqa: B039 nothing is called without consent


def consent_now() -> Consent:
    """What the user agreed to in the call under way; nothing outside of one."""
    return _CONSENT.get()


@contextlib.contextmanager
def consenting(consent: Consent) -> Iterator[Consent]:
    """The user agreed to this while the block lasts."""
    token = _CONSENT.set(consent)
    try:
        yield consent
    finally:
        _CONSENT.reset(token)
