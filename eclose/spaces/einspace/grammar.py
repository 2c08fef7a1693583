"""The grammar of paper 003 as data: productions (3.3), options of every terminal (A.2), for any number of axes.

::

    S -> M M | B M A | R1 M R2
    M -> M M | B M A | R1 M R2 | C

A derivation of S is a tree of :class:`Sequential`, :class:`Branch` and :class:`Route`; an :class:`Op` in the place of
a module is the production M -> C.
"""

from functools import cache
from itertools import permutations
from typing import Literal, NamedTuple, TypeAlias

Mode = Literal["im", "col"]  # (channels, *space) or (tokens, features)
Symbol = Literal["S", "M", "B", "A", "R1", "R2", "C"]

FACTORS = (2, 4, 8)
WIDTHS = (16, 32, 64, 128, 256, 512, 1024, 2048)
WINDOWS = ((1, 1, 0), (1, 2, 0), (3, 1, 1), (3, 2, 1), (4, 4, 0), (8, 8, 0), (16, 16, 0))  # kernel, stride, padding
DEEPEST = 100  # modules within modules: what the authors' code allows, and what recursion bears
STOP = 0.32  # p(M -> C | M) of the paper; the other productions share the rest equally


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

COMPUTATIONS = (
    IDENTITY,
    *(Op("linear", (width,)) for width in WIDTHS),
    Op("norm"),
    Op("relu"),
    SOFTMAX,
    Op("pos-enc"),
)

EXTRAS = {  # not of the paper, which names the first two as missing
    "recurrent": (Op("gru"),),
    "statespace": (Op("ssm"),),
    "xd": tuple(Op("xd", (width,)) for width in WIDTHS),
}
XD_WINDOW = (3, 1, 1)  # of the convolution that ``xd`` starts as


@cache
def computations(extras: tuple[str, ...] = ()) -> tuple[Op, ...]:
    """C: the paper's operations, and those of optional groups."""
    return (*COMPUTATIONS, *(op for group, ops in EXTRAS.items() if group in extras for op in ops))


def factor(split: Op) -> int:
    """Into how many branches a split divides."""
    return split.args[-1]


def kept(ways: int) -> int:
    """How many inner modules a branch of so many ways has: two of their own, or one that is repeated (3.4)."""
    return 2 if ways == 2 else 1


@cache
def splits(dims: int) -> tuple[Op, ...]:
    """B for tensors of ``dims`` axes: ``clone(b)`` and ``group(dim, b)``."""
    clones = [Op("clone", (b,)) for b in FACTORS]
    groups = [Op("group", (dim, b)) for dim in range(1, dims + 1) for b in FACTORS]
    return (*clones, *groups)


@cache
def merges(dims: int, branches: int) -> tuple[Op, ...]:
    """A for tensors of ``dims`` axes: ``matmul`` merges two branches only (equations 5 to 7)."""
    products = [Op("matmul"), Op("scaled-matmul")] if branches == 2 else []
    return (*products, Op("add"), *(Op("concat", (dim,)) for dim in range(1, dims + 1)))


@cache
def routes_before(mode: Mode, dims: int) -> tuple[Op, ...]:
    """R1: ``im2col`` in Im mode only."""
    windows = [Op("im2col", window) for window in WINDOWS] if mode == "im" else []
    return (IDENTITY, *_orders(dims), *windows)


@cache
def routes_after(mode: Mode, dims: int) -> tuple[Op, ...]:
    """R2: ``col2im`` in Col mode only."""
    return (IDENTITY, *_orders(dims), *([COL2IM] if mode == "col" else []))


def _orders(dims: int) -> list[Op]:
    orders = list(permutations(range(1, dims + 1)))
    return [Op("permute", order) for order in orders[1:]]  # the first one is the identity
