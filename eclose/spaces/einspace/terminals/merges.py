"""A, several tensors to one: products of two (equations 5 to 7), ``add`` and ``concat``."""

from math import prod, sqrt

import torch
from torch import nn

from eclose.spaces.einspace.terminals.copies import JoinCopies, SumCopies
from eclose.spaces.einspace.terminals.record import Branches, Merge, by_name
from eclose.spaces.einspace.terminals.state import Shape
from eclose.spaces.operation import Args, Arguments, Cost


class Product(nn.Module):
    """The matrix product of two tensors, over the root of its length where it is scaled."""

    def __init__(self, scaled: bool) -> None:
        super().__init__()
        self.scaled = scaled

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        """``(..., rows, columns)``."""
        product = first @ second
        return product / sqrt(first.shape[-1]) if self.scaled else product


class Add(nn.Module):
    """The sum of two tensors."""

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        """The same shape."""
        return first + second


class Concat(nn.Module):
    """Two tensors side by side."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        """One tensor."""
        return torch.cat((first, second), self.axis)


def _product(args: Args, branches: Branches) -> Shape | None:
    first, last, ways = branches
    if len(first) != len(last) or ways != 2 or first[:-2] != last[:-2] or first[-1] != last[-2]:
        return None
    return (*first[:-1], last[-1])


def _joined(args: Args, branches: Branches) -> Shape | None:
    (first, last, ways), axis = branches, args[0] - 1
    if len(first) != len(last) or axis >= len(first):
        return None
    if first[:axis] != last[:axis] or first[axis + 1 :] != last[axis + 1 :]:
        return None
    return (*first[:axis], first[axis] * (ways - 1) + last[axis], *first[axis + 1 :])


def _written(args: Args, branches: Branches, after: Shape) -> Cost:
    return Cost(0, 0, prod(after))


def _multiplied(args: Args, branches: Branches, after: Shape) -> Cost:
    return Cost(0, 2 * branches.first[-1] * prod(after), prod(after))


def _of_two(name: str, words: str, scaled: bool) -> Merge:
    return Merge(
        name=name,
        kind="fork",
        words=words,
        symbols=("A",),
        after=_product,
        cost=_multiplied,
        build=lambda args, branches, lead: [Product(scaled)],
        of_copies=None,
    )


MERGES = by_name(
    _of_two("matmul", "matrix product", scaled=False),
    _of_two("scaled-matmul", "scaled matrix product", scaled=True),
    Merge(
        name="add",
        kind="fork",
        words="sum",
        symbols=("A",),
        after=lambda args, branches: branches.first if branches.first == branches.last else None,
        cost=_written,
        build=lambda args, branches, lead: [Add()],
        of_copies=lambda args, ways, copies: SumCopies(ways, copies),
    ),
    Merge(
        name="concat",
        kind="fork",
        words="concatenation",
        sizes="axis {0}",
        symbols=("A",),
        arguments=Arguments(lambda args: len(args) == 1 and args[0] > 0, "(dim)"),
        offered=lambda mode, dims: [(dim,) for dim in range(1, dims + 1)],
        after=_joined,
        cost=_written,
        build=lambda args, branches, lead: [Concat(lead + args[0] - 1)],
        of_copies=lambda args, ways, copies: JoinCopies(args[0], ways, copies),
    ),
)
