"""One record for each operation of a space: how it is written, what it does to shapes, what it costs, how it is built.

A space is a table of such records. Sampling, checks, costs, networks and explanations all ask the record; nothing else
knows an operation by its name. A space subclasses :class:`Operation` where its operations have more to say.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from torch import nn

Args = tuple[int, ...]
Before = TypeVar("Before")  # what is known of the tensors that go in, without their batch axis
After = TypeVar("After")  # and of the one that comes out
Place = TypeVar("Place")  # what else a module must know of where it stands


class Cost(NamedTuple):
    """Of an operation for one sample, or of a whole network: a sum over operations."""

    parameters: int = 0
    flops: int = 0
    activations: int = 0  # elements of the tensors that are written

    def __add__(self, other: "Cost") -> "Cost":  # type: ignore[override]
        return Cost(self.parameters + other.parameters, self.flops + other.flops, self.activations + other.activations)

    def times(self, copies: int) -> "Cost":
        """Of so many repetitions."""
        return Cost(copies * self.parameters, copies * self.flops, copies * self.activations)


FREE = Cost()


class Arguments(NamedTuple):
    """Which numbers stand behind the name of an operation."""

    fit: Callable[[Args], bool]
    form: str  # how they are written, for error messages


_NO_ARGUMENTS = Arguments(lambda args: not args, "")


@dataclass(frozen=True, kw_only=True)
class Operation(Generic[Before, After, Place]):
    """Everything about one operation.

    ``after`` is None where the operation does not fit; ``cost`` is known without building; ``build`` gives modules that
    run one after the other.
    """

    name: str
    kind: str  # which sort of operation it is, in drawings and their legend
    words: str  # what people call it
    sizes: str = ""  # what its arguments mean: {0}, {1} ... stand for them, {all} for all of them
    arguments: Arguments = _NO_ARGUMENTS
    after: Callable[[Args, Before], After | None]
    cost: Callable[[Args, Before, After], Cost]
    build: Callable[[Args, Before, Place], list[nn.Module]]

    def detail(self, args: Args) -> str:
        """Its arguments in words: ``width 64``."""
        return self.sizes.format(*args, all=", ".join(map(str, args)))
