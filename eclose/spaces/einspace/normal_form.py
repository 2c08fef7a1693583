"""A network without the accidents of its derivation: one chain of operations and forks, and its hash.

Sequences and routing modules are laid out flat, identities and what undoes itself left out, neighbouring permutations
made one, activations moved to one side of routing. Trees with the same chain are the same network; networks are built
from chains.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias, cast

from eclose.spaces.einspace.grammar import COL2IM, IDENTITY, Branch, Op, Tree
from eclose.spaces.einspace.notation import op_text


class Fork(NamedTuple):
    """Branches between a split and a merge."""

    split: Op
    branches: tuple["Chain", ...]
    merge: Op


Chain: TypeAlias = tuple[Op | Fork, ...]

_RELU = Op("relu")
POINTS = Op("im2col", (1, 1, 0))  # the inverse of col2im


def chain(tree: Tree) -> Chain:
    """The operations and forks of ``tree`` in the order of computation."""
    links: list[Op | Fork] = []
    _lay_out(tree, links)
    return tuple(links)


def digest(tree: Tree) -> str:
    """Equal for trees that describe the same network, branches of a sum in any order."""
    return hashlib.sha256(_key(_before_head(chain(tree))).encode()).hexdigest()[:16]


def _lay_out(tree: Tree, links: list[Op | Fork]) -> None:
    if isinstance(tree, Op):
        _append(tree, links)
    elif isinstance(tree, Branch):
        fork = Fork(tree.split, tuple(chain(branch) for branch in tree.branches), tree.merge)
        if _point_by_point(fork):
            for op in fork.branches[0]:
                _append(cast(Op, op), links)
        else:
            links.append(fork)
    else:
        for part in tree:
            _lay_out(part, links)


def _append(op: Op, links: list[Op | Fork]) -> None:
    """Append ``op`` in its normal place.

    An activation may stand on either side of what only moves values and pads zeros. It goes before windows and
    permutations, but after ``col2im``, so that ``im2col`` and ``linear`` meet as a convolution.
    """
    last = links[-1] if links else None
    if op == _RELU:
        links.insert(_trailing(links, "permute", "im2col"), op)
    elif op.name == "permute" and isinstance(last, Op) and last.name == "permute":
        links.pop()
        order = tuple(last.args[axis - 1] for axis in op.args)
        if order != tuple(sorted(order)):
            links.append(Op("permute", order))
    elif op == COL2IM and last == POINTS:
        links.pop()
    elif op == COL2IM:
        links.insert(_trailing(links, "relu"), op)
    elif op == POINTS and (at := _trailing(links, "relu")) and links[at - 1] == COL2IM:
        del links[at - 1]
    elif op != IDENTITY:
        links.append(op)


def _trailing(links: Sequence[Op | Fork], *names: str) -> int:
    """Where the last operations begin that all have one of ``names``."""
    position = len(links)
    while position and isinstance(link := links[position - 1], Op) and link.name in names:
        position -= 1
    return position


def _point_by_point(fork: Fork) -> bool:
    """Groups that are joined again as they were, with activations between at most."""
    joined = fork.split.name == "group" and fork.merge == Op("concat", fork.split.args[:1])
    alike = all(branch == fork.branches[0] for branch in fork.branches)
    return joined and alike and all(link == _RELU for link in fork.branches[0])


def _before_head(links: Chain) -> Chain:
    """Without a change between image and tokens at the end: heads average over points and tokens alike."""
    at = _trailing(links, "relu")
    return links[: at - 1] + links[at:] if at and links[at - 1] in (COL2IM, POINTS) else links


def _key(links: Chain) -> str:
    return ";".join(op_text(link) if isinstance(link, Op) else _fork_key(link) for link in links)


def _fork_key(fork: Fork) -> str:
    keys = [_key(branch) for branch in fork.branches]
    if fork.split.name == "clone" and fork.merge.name == "add":
        keys.sort()
    return f"{op_text(fork.split)}[{'|'.join(keys)}]{op_text(fork.merge)}"
