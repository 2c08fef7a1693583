"""The productions of the grammar (3.3), and derivations of it as trees: their nodes by path, and how many there are.

::

    S -> M M | B M A | R1 M R2
    M -> M M | B M A | R1 M R2 | C

A derivation of S is a tree of :class:`Sequential`, :class:`Branch` and :class:`Route`; an :class:`Op` in the place of
a module is the production M -> C. What B, A, R1, R2 and C become is in ``terminals``.
"""

from typing import Literal, NamedTuple, TypeAlias, cast

Symbol = Literal["S", "M", "B", "A", "R1", "R2", "C"]
Path = tuple[int, ...]  # the number of the child at each step from the root

FACTORS = (2, 4, 8)  # into how many branches a tensor is split
DEEPEST = 100  # modules within modules: what the authors' code allows, and what recursion bears


class Op(NamedTuple):
    """A terminal: ``Op("linear", (64,))``, ``Op("im2col", (3, 1, 1))``."""

    name: str
    args: tuple[int, ...] = ()


class Sequential(NamedTuple):
    """M -> M M."""

    first: "Tree"
    second: "Tree"


class Branch(NamedTuple):
    """M -> B M A: two branches after a split by 2; one, repeated with parameters of its own, after 4 and 8."""

    split: Op
    branches: tuple["Tree", ...]
    merge: Op


class Route(NamedTuple):
    """M -> R1 M R2."""

    before: Op
    inner: "Tree"
    after: Op


Tree: TypeAlias = Op | Sequential | Branch | Route

IDENTITY = Op("identity")
COL2IM = Op("col2im")
SOFTMAX = Op("softmax")


def factor(split: Op) -> int:
    """Into how many branches a split divides."""
    return split.args[-1]


def kept(ways: int) -> int:
    """How many inner modules a branch of so many ways has: two of their own, or one that is repeated (3.4)."""
    return 2 if ways == 2 else 1


class Count(NamedTuple):
    """Symbols of a derivation, those of repeated branches as often as they are built (Table 6)."""

    terminals: int
    modules: int  # S and M

    @property
    def nodes(self) -> int:
        """All of them."""
        return self.terminals + self.modules


def count(tree: Tree) -> Count:
    """How many symbols ``tree`` has."""
    match tree:
        case Op():
            return Count(1, 1)
        case Sequential():
            parts, own, times = [count(tree.first), count(tree.second)], 0, 1
        case Route():
            parts, own, times = [count(tree.inner)], 2, 1
        case Branch():
            parts, own = [count(branch) for branch in tree.branches], 2
            times = factor(tree.split) // len(parts)
    return Count(own + times * sum(part.terminals for part in parts), 1 + times * sum(part.modules for part in parts))


def children(tree: Tree) -> tuple[Tree, ...]:
    """The parts of a module, operations of B, A, R1 and R2 among them."""
    if isinstance(tree, Op):
        return ()
    if isinstance(tree, Branch):
        return (tree.split, *tree.branches, tree.merge)
    return tuple(tree)


def replace(tree: Tree, path: Path, new: Tree) -> Tree:
    """``tree`` with the node at ``path`` replaced; everything beside the path is shared."""
    if not path:
        return new
    parts = list(children(tree))
    parts[path[0]] = replace(parts[path[0]], path[1:], new)
    if isinstance(tree, Branch):
        split, *branches, merge = parts
        return Branch(cast(Op, split), _as_many(tuple(branches), cast(Op, split)), cast(Op, merge))
    return type(tree)(*parts)  # type: ignore[arg-type]


def first_op(tree: Tree) -> Op:
    """What the network does first: an operation other than the identity, a split, or IDENTITY if it does nothing."""
    if isinstance(tree, Op):
        return tree
    if isinstance(tree, Branch):
        return tree.split
    for part in tree:
        op = first_op(part)
        if op != IDENTITY:
            return op
    return IDENTITY


def _as_many(branches: tuple[Tree, ...], split: Op) -> tuple[Tree, ...]:
    """Branches for a split that may have become wider or narrower: the first one is kept, and repeated if need be."""
    return branches if len(branches) == kept(factor(split)) else (branches[0],) * kept(factor(split))
