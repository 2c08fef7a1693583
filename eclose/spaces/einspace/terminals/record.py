"""The record of a terminal of the grammar: C, R1 and R2 have :class:`Terminal`, B :class:`Split`, A :class:`Merge`."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple, TypeVar

from torch import nn

from eclose.spaces.einspace.grammar import Symbol
from eclose.spaces.einspace.terminals.copies import Layout
from eclose.spaces.einspace.terminals.state import Mode, Shape, State
from eclose.spaces.operation import FREE, After, Args, Before, Cost, Operation, Place

Offer = Callable[[Mode, int], Iterable[Args]]
Record = TypeVar("Record", bound="Symbolic[Any, Any, Any]")


class Branches(NamedTuple):
    """The tensors that a merge gets: shapes of the first and of the last, and how many there are."""

    first: Shape
    last: Shape
    ways: int


@dataclass(frozen=True, kw_only=True)
class Symbolic(Operation[Before, After, Place]):
    """What terminals of all symbols have."""

    symbols: tuple[Symbol, ...]  # which of them may become this terminal
    offered: Offer = lambda mode, dims: [()]  # what sampling draws from, for tensors of so many axes
    extra: str = ""  # the optional group it belongs to, where it is not of the paper


@dataclass(frozen=True, kw_only=True)
class Terminal(Symbolic[State, State, Layout]):
    """One tensor to one. In repeated branches all copies run at once, see :class:`Layout`."""

    keeps_sharing: bool = False  # copies that share their input share what comes out: there are no parameters
    wants_own: bool = False  # each copy must have a tensor of its own


@dataclass(frozen=True, kw_only=True)
class Split(Symbolic[State, State, int]):
    """One tensor to several, all in the state ``after``; ``build`` makes them copies, after ``lead`` axes."""

    halves: Callable[[Args, int], nn.Module]  # for two branches: gives a pair of tensors
    whole: bool = False  # every branch gets all of the tensor


@dataclass(frozen=True, kw_only=True)
class Merge(Symbolic[Branches, Shape, int]):
    """Several tensors to one; ``build`` takes two of them, with ``lead`` axes before those of the shape."""

    of_copies: Callable[[Args, int, int], nn.Module] | None  # ways and copies of these; None: for two branches only


def by_name(*records: Record) -> dict[str, Record]:
    """A table of records; sampling offers them in this order."""
    return {record.name: record for record in records}


def unchanged(args: Args, state: State) -> State:
    """The shape rule of what keeps the shape."""
    return state


def tokens_only(args: Args, state: State) -> State | None:
    """The shape rule of what reads tokens in their order and keeps their shape."""
    return state if state.mode == "col" else None


def view(args: Args, before: object, after: object) -> Cost:
    """The cost of what writes nothing."""
    return FREE


def written(args: Args, before: State, after: State) -> Cost:
    """The cost of what computes without parameters and products."""
    return Cost(0, 0, prod(after.shape))
