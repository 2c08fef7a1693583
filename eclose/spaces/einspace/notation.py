"""Trees as text that people read and that parses back, and as JSON.

``seq(route(im2col(3,1,1), linear(64), col2im), branch(clone(2), norm, identity, add))``
"""

import re
from collections.abc import Iterator
from typing import Any

from eclose.errors import ConfigError
from eclose.spaces.einspace.grammar import DEEPEST, Branch, Op, Route, Sequential, Symbol, Tree, factor, kept
from eclose.spaces.einspace.terminals.options import check_op

_INDENT = 2
_TOKEN = re.compile(r"\s*([A-Za-z][\w-]*|\d+|[(),])")


def op_text(op: Op) -> str:
    """``linear(64)``, ``relu``."""
    return f"{op.name}({','.join(map(str, op.args))})" if op.args else op.name


def text(tree: Tree, width: int = 100) -> str:
    """``tree`` as text; what does not fit ``width`` is broken into indented lines."""
    return _text(to_json(tree), width)


def parse(source: str) -> Tree:
    """Inverse of :func:`text`; spaces and line breaks do not matter."""
    tokens = _Tokens(source)
    data = _expression(tokens, 0)
    tokens.expect("")
    return from_json(data)


def to_json(tree: Tree) -> Any:
    """Modules as lists that begin with their production, operations as strings."""
    match tree:
        case Op():
            return op_text(tree)
        case Sequential():
            return ["seq", to_json(tree.first), to_json(tree.second)]
        case Route():
            return ["route", op_text(tree.before), to_json(tree.inner), op_text(tree.after)]
        case Branch():
            return ["branch", op_text(tree.split), *map(to_json, tree.branches), op_text(tree.merge)]


def from_json(data: Any) -> Tree:
    """Inverse of :func:`to_json`; refuses what the grammar does not derive."""
    return _tree(data, 0)


def _tree(data: Any, depth: int) -> Tree:
    _check_depth(depth)
    match data:
        case str():
            return _op(data, "C")
        case ["seq", first, second]:
            return Sequential(_tree(first, depth + 1), _tree(second, depth + 1))
        case ["route", before, inner, after]:
            return Route(_op(before, "R1"), _tree(inner, depth + 1), _op(after, "R2"))
        case ["branch", split, *branches, merge]:
            op = _op(split, "B")
            if len(branches) != kept(factor(op)):
                raise ConfigError(f"{split} takes {kept(factor(op))} inner module(s), but {len(branches)} are given")
            return Branch(op, tuple(_tree(branch, depth + 1) for branch in branches), _op(merge, "A"))
    raise ConfigError(
        f"{_excerpt(data)} is no module: allowed are seq(M, M), branch(B, M, A), branch(B, M, M, A), route(R1, M, R2) "
        "and an operation"
    )


def _op(data: Any, symbol: Symbol) -> Op:
    found = re.fullmatch(r"([a-z][\w-]*)(?:\((\d{1,9}(?:,\d{1,9})*)\))?", data) if isinstance(data, str) else None
    if not found:
        raise ConfigError(
            f"{_excerpt(data)} is no operation: write its name and numbers of up to 9 digits, as in linear(64)"
        )
    name, args = found.groups()
    op = Op(name, tuple(map(int, args.split(","))) if args else ())
    check_op(op, symbol)
    return op


def _text(data: Any, width: int) -> str:
    if isinstance(data, str):
        return data
    name, *parts = data
    line = f"{name}({', '.join(_text(part, 10**9) for part in parts)})"
    if len(line) <= width:
        return line
    inner = (_text(part, width - _INDENT).replace("\n", "\n" + " " * _INDENT) for part in parts)
    return f"{name}(" + ",".join("\n" + " " * _INDENT + part for part in inner) + "\n)"


class _Tokens:
    """Words, numbers and signs of a text, one ahead."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.rest = self._split(source.rstrip())
        self.next, self.at = next(self.rest)

    def _split(self, source: str) -> Iterator[tuple[str, int]]:
        at = 0
        while at < len(source):
            found = _TOKEN.match(source, at)
            if not found:
                raise ConfigError(
                    f"'{source[at:].strip()[:20]}' at position {at} is neither a name, a number nor one of ( ) ,"
                )
            yield found[1], found.start(1)
            at = found.end()
        yield "", at

    def take(self) -> str:
        taken = self.next
        if taken:
            self.next, self.at = next(self.rest)
        return taken

    def expect(self, *allowed: str) -> str:
        if self.next not in allowed:
            wanted = " or ".join(f"'{sign}'" if sign else "the end" for sign in allowed)
            raise ConfigError(
                f"'{self.next}' at position {self.at} where {wanted} belongs"
                if self.next
                else f"the text ends where {wanted} belongs"
            )
        return self.take()


def _expression(tokens: _Tokens, depth: int) -> Any:
    _check_depth(depth)
    name = tokens.take()
    if not name or not name[0].isalpha():
        raise ConfigError(f"'{name}' where the name of a module or an operation belongs")
    if tokens.next != "(":
        return name
    tokens.take()
    if tokens.next.isdigit():
        return f"{name}({','.join(_numbers(tokens))})"
    parts = [name, _expression(tokens, depth + 1)]
    while tokens.expect(",", ")") == ",":
        parts.append(_expression(tokens, depth + 1))
    return parts


def _numbers(tokens: _Tokens) -> Iterator[str]:
    yield tokens.take()
    while tokens.expect(",", ")") == ",":
        if not tokens.next.isdigit():
            raise ConfigError(f"'{tokens.next}' where a number belongs")
        yield tokens.take()


def _check_depth(depth: int) -> None:
    if depth > DEEPEST:
        raise ConfigError(f"the tree is nested too deeply: at most {DEEPEST} modules stand within each other")


def _excerpt(data: Any) -> str:
    words = str(data)
    return f"'{words if len(words) <= 60 else words[:57] + '...'}'"
