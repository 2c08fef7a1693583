"""Names that users type, and the functions behind them.

A member registers itself with a decorator. Its options are the keyword-only parameters of its function,
so that the configuration can list, check and complete them without a second description.
"""

import difflib
import inspect
import json
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin

from eclose.errors import ConfigError


def nearest(word: str, known: Iterable[str], told: str = "") -> str:
    """The end of an error message: the nearest known name if there is one, and all names.

    ``told`` says who they are, where they are too many to be named.
    """
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    guess = f"did you mean '{close[0]}'? " if close else ""
    return f"{guess}known: {told or ', '.join(names)}"


@dataclass(frozen=True)
class Member:
    """One registered function with what a user may set about it."""

    name: str
    make: Callable[..., Any]
    options: Mapping[str, Any]  # option -> default
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # option -> what it may be besides, as text
    effective: Callable[..., dict[str, Any]] | None = None  # options as they are used, where they follow from the input

    @property
    def summary(self) -> str:
        """First line of the docstring."""
        return (inspect.getdoc(self.make) or "").split("\n")[0]

    @property
    def settable(self) -> dict[str, Any]:
        """The options that are for users: all but those that a run measures, and writes down for itself."""
        measured = getattr(self.make, "measured_options", ())
        return {key: default for key, default in self.options.items() if key not in measured}

    def complete(self, given: Mapping[str, Any], where: str) -> dict[str, Any]:
        """All options: the given ones, checked against the type of their default, and the defaults."""
        for key in given:
            if key not in self.options:
                allowed = nearest(key, self.settable) if self.settable else "it has no options"
                raise ConfigError(f"{where}: '{self.name}' has no option '{key}'; {allowed}")
        return {
            key: coerce(given[key], default, f"{where}.{key}", self.words.get(key, ())) if key in given else default
            for key, default in self.options.items()
        }


class Registry(Mapping[str, Member]):
    """The members of one role (task, backbone, space ...), by name."""

    def __init__(self, role: str) -> None:
        self.role = role
        self._members: dict[str, Member] = {}

    def register(
        self, name: str, effective: Callable[..., dict[str, Any]] | None = None
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorator: ``@backbones.register("lenet")``."""

        def add(make: Callable[..., Any]) -> Callable[..., Any]:
            assert name not in self._members, f"{self.role} '{name}' registered twice"
            parameters = [p for p in inspect.signature(make).parameters.values() if p.kind is p.KEYWORD_ONLY]
            options = {p.name: p.default for p in parameters}
            words = {p.name: words_of(p.annotation) for p in parameters}
            self._members[name] = Member(name, make, options, words, effective)
            return make

        return add

    def __getitem__(self, name: str) -> Member:
        try:
            return self._members[name]
        except KeyError:
            raise ConfigError(f"unknown {self.role} '{name}'; {nearest(name, self._members)}") from None

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


def coerce(value: Any, default: Any, where: str, words: tuple[str, ...] = ()) -> Any:
    """``value`` as the type of ``default``; whole numbers pass as floats, lists as tuples, numpy's as Python's.

    One of ``words`` passes as well.
    """
    if isinstance(value, str) and value in words:
        return value
    if default in words:  # beside which there are true and false
        default = False
    if isinstance(default, bool):
        fits = isinstance(value, bool)
    elif isinstance(default, int):
        fits = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        value = int(value) if fits else value
    elif isinstance(default, float):
        fits = isinstance(value, numbers.Real) and not isinstance(value, bool)
        value = float(value) if fits else value
    elif isinstance(default, tuple):
        fits = isinstance(value, (list, tuple))
        if fits and default:
            value = tuple(coerce(item, default[0], where) for item in value)
        elif fits:
            value = tuple(value)
    else:
        fits = isinstance(value, type(default))
    if not fits:
        raise ConfigError(f"{where} is {value!r}, but must be {_wanted(value, default, where, words)}")
    return value


def _wanted(value: Any, default: Any, where: str, words: tuple[str, ...]) -> str:
    """What fits in place of ``value``."""
    if isinstance(default, tuple) and isinstance(value, str):
        items = [item.strip() for item in value.strip("[]").split(",")]  # shells take the quotes of [a,b] away
        return f"a list: '{where}={json.dumps(items)}'"
    kind = _WANTED.get(type(default), type(default).__name__)
    return f"{kind}, or one of: {', '.join(words)}" if words else kind


def words_of(annotation: Any) -> tuple[str, ...]:
    """Those of ``bool | Literal["one", "other"]``."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return tuple(word for part in get_args(annotation) for word in words_of(part))


_WANTED = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    tuple: "a list",
    dict: "a table",
}
