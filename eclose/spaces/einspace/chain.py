"""A network without the accidents of its derivation: one chain of operations and forks, and its hash.

Sequences and routing modules are laid out flat, identities left out, neighbouring permutations made one. Trees with
the same chain are the same network; networks are built from chains.
"""

import hashlib
from typing import NamedTuple, TypeAlias

from eclose.spaces.einspace.grammar import IDENTITY, Branch, Op, Tree
from eclose.spaces.einspace.text import op_text


class Fork(NamedTuple):
    """Branches between a split and a merge."""

    split: Op
    branches: tuple["Chain", ...]
    merge: Op


Chain: TypeAlias = tuple[Op | Fork, ...]


def chain(tree: Tree) -> Chain:
    """The operations and forks of ``tree`` in the order of computation."""
    links: list[Op | Fork] = []
    _lay_out(tree, links)
    return tuple(links)


def digest(tree: Tree) -> str:
    """Equal for trees that describe the same network, branches of a sum in any order."""
    return hashlib.sha256(_key(chain(tree)).encode()).hexdigest()[:16]


def _lay_out(tree: Tree, links: list[Op | Fork]) -> None:
    if isinstance(tree, Op):
        _append(tree, links)
    elif isinstance(tree, Branch):
        fork = Fork(tree.split, tuple(chain(branch) for branch in tree.branches), tree.merge)
        if not _does_nothing(fork):
            links.append(fork)
    else:
        for part in tree:
            _lay_out(part, links)


def _append(op: Op, links: list[Op | Fork]) -> None:
    if op == IDENTITY:
        return
    last = links[-1] if links else None
    if op.name == "permute" and isinstance(last, Op) and last.name == "permute":
        links.pop()
        order = tuple(last.args[axis - 1] for axis in op.args)
        if order == tuple(sorted(order)):
            return
        op = Op("permute", order)
    links.append(op)


def _does_nothing(fork: Fork) -> bool:
    """Groups that are joined again as they were."""
    joined = fork.split.name == "group" and fork.merge == Op("concat", fork.split.args[:1])
    return joined and not any(fork.branches)


def _key(links: Chain) -> str:
    return ";".join(op_text(link) if isinstance(link, Op) else _fork_key(link) for link in links)


def _fork_key(fork: Fork) -> str:
    keys = [_key(branch) for branch in fork.branches]
    if fork.split.name == "clone" and fork.merge.name == "add":
        keys.sort()
    return f"{op_text(fork.split)}[{'|'.join(keys)}]{op_text(fork.merge)}"
