"""Which operations may stand where in a written tree, and with which numbers.

A tree may use sizes that sampling never offers, ``linear(196)`` or ``im2col(5,1,2)``: seeds need them.
"""

from collections.abc import Callable

from eclose.errors import ConfigError
from eclose.spaces.einspace.grammar import FACTORS, Op, Symbol

Args = tuple[int, ...]
Allowed = dict[str, tuple[Callable[[Args], bool], str]]  # name: whether its numbers are right, and how they look


def _none(args: Args) -> bool:
    return not args


def _width(args: Args) -> bool:
    return len(args) == 1 and args[0] > 0


def _order(args: Args) -> bool:
    return len(args) > 1 and sorted(args) == list(range(1, len(args) + 1))


_ROUTING: Allowed = {"identity": (_none, ""), "permute": (_order, "(2,1), (1,3,2) ...")}

TERMINALS: dict[Symbol, Allowed] = {
    "B": {
        "clone": (lambda args: len(args) == 1 and args[0] in FACTORS, f"(b) with b in {FACTORS}"),
        "group": (lambda args: len(args) == 2 and args[0] > 0 and args[1] in FACTORS, f"(dim,b) with b in {FACTORS}"),
    },
    "A": {
        "matmul": (_none, ""),
        "scaled-matmul": (_none, ""),
        "add": (_none, ""),
        "concat": (lambda args: len(args) == 1 and args[0] > 0, "(dim)"),
    },
    "R1": {
        **_ROUTING,
        "im2col": (lambda args: len(args) == 3 and args[0] > 0 and args[1] > 0, "(kernel,stride,padding)"),
    },
    "R2": {**_ROUTING, "col2im": (_none, "")},
    "C": {
        "linear": (_width, "(width)"),
        **dict.fromkeys(("identity", "norm", "relu", "softmax", "pos-enc", "gru", "ssm"), (_none, "")),
        "xd": (_width, "(width)"),
    },
}


def check_op(op: Op, symbol: Symbol) -> None:
    """Refuse an operation that ``symbol`` does not derive."""
    allowed = TERMINALS[symbol]
    if op.name not in allowed:
        raise ConfigError(f"'{op.name}' cannot stand for {symbol}: allowed are {', '.join(allowed)}")
    right, form = allowed[op.name]
    if not right(op.args):
        given = ",".join(map(str, op.args))
        raise ConfigError(f"{op.name}({given}): write {op.name}{form}")
