"""ListOps (Nangia and Bowman 2018) by the rules of the Long Range Arena: what is the value of a nested expression?

An argument is an operator with probability 1/4 as long as the depth allows it, otherwise a digit. All expressions of
a block grow together, level by level: a node knows its parent's place in the level above.
"""

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eclose.errors import TaskError
from eclose.tasks.own_data.reading import Reading
from eclose.tasks.source import Context, Progress, Source, check_range, generated_once, tasks

Numbers = NDArray[np.int64]
TOKENS = ("", *"0123456789", "[MIN", "[MAX", "[MED", "[SM", "]")  # by number; the first one fills up short expressions
_DIGIT, _OPERATOR, _END = 1, 11, 15
_NESTED = 0.25  # the chance of an argument to be an operator
_BLOCK = 2048  # expressions that grow together
_VERSION = 1  # raise it when expressions change: old cache files are then ignored
_PATIENCE = 30  # blocks without a new expression of the wanted length


@tasks.register("listops")
def listops(
    context: Context,
    *,
    depth: int = 10,
    arguments: int = 10,
    shortest: int = 501,
    longest: int = 1999,
    train: int = 96000,
    val: int = 2000,
    test: int = 2000,
    seed: int = 0,
) -> Source:
    """ListOps: the value of a nested expression of MIN, MAX, MED and SM, as tokens; generated."""
    rules = Rules(depth, arguments, shortest, longest)
    rules.check()
    arrays = generated_once(
        "listops",
        f"listops-{longest}",
        {"version": _VERSION, **vars(rules)},
        lambda count: expressions(count, rules, seed, context.progress),
        *(seed, train, val, test),
    )
    return Source(arrays, Reading(kind="classification", tokens=True, axes=1))


@dataclass(frozen=True)
class Rules:
    """How deep and how long expressions are; an operator and the bracket before it are one token."""

    depth: int  # of the whole tree: operators lie on levels 1 to depth - 1
    arguments: int  # of an operator, at most; at least two
    shortest: int
    longest: int

    def check(self) -> None:
        """Refuse rules that no expression keeps."""
        check_range("listops", 2, 100, depth=self.depth, arguments=self.arguments)
        if not 4 <= self.shortest <= self.longest <= 2**16:
            raise TaskError(
                f"task listops: shortest is {self.shortest} and longest {self.longest}, "
                "but 4 <= shortest <= longest <= 65536 must hold"
            )

    @property
    def width(self) -> int:
        """The length that all expressions are filled up to: the next power of two."""
        return 1 << (self.longest - 1).bit_length()


def expressions(
    count: int, rules: Rules, seed: int, progress: Progress = lambda done, total: None
) -> tuple[NDArray[np.uint8], Numbers]:
    """``count`` different expressions ``(count, width)`` and their values, the same for a seed."""
    x, y = np.zeros((count, rules.width), np.uint8), np.zeros(count, np.int64)
    known: set[bytes] = set()
    block = waited = 0
    while len(known) < count:
        progress(len(known), count)
        before = len(known)
        for tokens, value in zip(*_block(rules, np.random.default_rng((seed, block))), strict=True):
            digest = hashlib.blake2b(tokens, digest_size=16).digest()
            if len(known) < count and digest not in known:
                x[len(known)], y[len(known)] = tokens, value
                known.add(digest)
        block, waited = block + 1, waited + 1 if len(known) == before else 0
        if waited == _PATIENCE:
            raise TaskError(
                f"task listops: only {before} of {count} different expressions of {rules.shortest} to {rules.longest} "
                f"tokens found with depth {rules.depth} and {rules.arguments} arguments: allow more of these, or ask "
                "for fewer samples"
            )
    progress(count, count)
    return x, y


class _Level(NamedTuple):
    """The nodes of all trees at one depth; the children of a node lie side by side in the next level."""

    tree: Numbers
    symbol: Numbers  # the token: a digit or an operator
    children: Numbers  # how many, 0 for digits

    def keep(self, trees: NDArray[np.bool_]) -> "_Level":
        """Only the nodes of some trees."""
        kept = trees[self.tree]
        return _Level(*(values[kept] for values in self))


def _block(rules: Rules, rng: np.random.Generator) -> tuple[NDArray[np.uint8], Numbers]:
    """Expressions of the wanted length among ``_BLOCK`` drawn ones."""
    levels, lengths = _grow(rules, rng)
    wanted = (rules.shortest <= lengths) & (lengths <= rules.longest)
    levels = [level.keep(wanted) for level in levels]
    rows = np.cumsum(wanted) - 1
    return _write(levels, rows, int(wanted.sum()), rules.width), _values(levels)


def _grow(rules: Rules, rng: np.random.Generator) -> tuple[list[_Level], Numbers]:
    """Level by level from the roots, which are operators; trees that are too long are given up on the way."""
    tree, lengths = np.arange(_BLOCK), np.zeros(_BLOCK, np.int64)
    levels: list[_Level] = []
    while len(tree):
        at = len(levels) + 1
        nested = rng.random(len(tree)) < (1.0 if at == 1 else _NESTED if at < rules.depth else 0.0)
        operators, digits = rng.integers(_OPERATOR, _END, len(tree)), rng.integers(_DIGIT, _OPERATOR, len(tree))
        children = np.where(nested, rng.integers(2, rules.arguments + 1, len(tree)), 0)
        levels.append(_Level(tree, np.where(nested, operators, digits), children))
        lengths += np.bincount(tree, 1 + nested, _BLOCK).astype(np.int64)  # an operator has a closing bracket
        short = lengths <= rules.longest
        tree = np.repeat(tree, children * short[tree])
    return levels, lengths


def _write(levels: list[_Level], rows: Numbers, count: int, width: int) -> NDArray[np.uint8]:
    """Tokens in reading order: an operator, its arguments, a bracket."""
    lengths = _lengths(levels)
    tokens = np.zeros((count, width), np.uint8)
    place = np.zeros(len(levels[0].tree), np.int64)
    for level, length, below in zip(levels, lengths, [*lengths[1:], np.zeros(0, np.int64)], strict=True):
        row, nested = rows[level.tree], level.children > 0
        tokens[row, place] = level.symbol
        tokens[row[nested], (place + length - 1)[nested]] = _END
        before = np.cumsum(below) - below  # tokens of all nodes to the left
        first = np.repeat(before[_firsts(level)], level.children[nested])
        place = np.repeat(place, level.children) + 1 + before - first
    return tokens


def _lengths(levels: list[_Level]) -> list[Numbers]:
    """Tokens of every node with all that it contains."""
    lengths = [np.where(level.children > 0, 2, 1) for level in levels]
    for above, below, level in zip(lengths[-2::-1], lengths[:0:-1], levels[-2::-1], strict=True):
        if len(below):
            above[level.children > 0] += np.add.reduceat(below, _firsts(level))
    return lengths


def _values(levels: list[_Level]) -> Numbers:
    """The value of every tree, from the digits upwards."""
    values = np.zeros(0, np.int64)
    for level in reversed(levels):
        own = level.symbol - _DIGIT
        nested = level.children > 0
        if len(values):
            own[nested] = _operate(level.symbol[nested], level.children[nested], _firsts(level), values)
        values = own
    return values


def _operate(operators: Numbers, counts: Numbers, firsts: Numbers, arguments: Numbers) -> Numbers:
    owners = np.repeat(np.arange(len(counts)), counts)
    ordered = arguments[np.argsort(owners * 10 + arguments, kind="stable")]
    middle = ordered[firsts + (counts - 1) // 2] + ordered[firsts + counts // 2]
    results = (ordered[firsts], ordered[firsts + counts - 1], middle // 2, np.add.reduceat(arguments, firsts) % 10)
    return np.choose(operators - _OPERATOR, results)


def _firsts(level: _Level) -> Numbers:
    """Where the children of every operator begin in the next level."""
    counts = level.children[level.children > 0]
    return np.cumsum(counts) - counts
