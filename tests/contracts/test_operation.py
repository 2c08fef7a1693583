"""What the record of an operation promises. A space that is a table of records has a class here for each table."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from eclose.spaces.einspace.terminals.copies import Layout
from eclose.spaces.einspace.terminals.merges import MERGES
from eclose.spaces.einspace.terminals.options import EVERY, TERMINALS
from eclose.spaces.einspace.terminals.record import Branches
from eclose.spaces.einspace.terminals.splits import SPLITS
from eclose.spaces.einspace.terminals.state import State
from eclose.spaces.nos.operations import OPERATIONS, Site
from eclose.spaces.operation import Args, Operation

BATCH = 2


class Example(NamedTuple):
    """An operation somewhere in a network."""

    record: Operation[Any, Any, Any]
    args: Args
    before: Any
    place: Any
    inputs: tuple[tuple[int, ...], ...]  # shapes of the tensors that go in, without the batch
    copies: int = 1  # with parameters of their own

    def __str__(self) -> str:
        return f"{self.record.name}{self.args} {self.before} {self.place}"


class OperationContract:
    """All that is known of an operation before it is built is true of what is built."""

    records: Mapping[str, Operation[Any, Any, Any]]
    uncounted: tuple[str, ...] = ()  # whose work torch does not see

    def examples(self) -> Iterator[Example]:
        """Places where the operations fit: some for each."""
        raise NotImplementedError

    def shape(self, example: Example, after: Any) -> tuple[int, ...]:
        """Of what comes out, without the batch."""
        raise NotImplementedError

    def test_every_record_has_examples(self) -> None:
        assert {example.record.name for example in self.examples()} == set(self.records)

    def test_every_record_is_whole(self) -> None:
        for name, record in self.records.items():
            assert record.name == name
            assert record.words
            assert record.kind
            assert not record.arguments.fit((0, 0, 0, 0, 0))
        for example in self.examples():
            record, args = example.record, example.args
            assert record.arguments.fit(args)
            assert "{" not in record.detail(args)
            assert bool(record.detail(args)) == bool(args), "arguments have a meaning"

    def test_what_is_built_is_what_was_said(self) -> None:
        for example in self.examples():
            record, args, before = example.record, example.args, example.before
            after = record.after(args, before)
            assert after is not None, example
            cost, modules = record.cost(args, before, after), nn.ModuleList(record.build(args, before, example.place))
            inputs = [torch.randn(BATCH, *shape) for shape in example.inputs]
            with FlopCounterMode(display=False) as counter:
                output = run(modules, inputs)
            assert output.shape == (BATCH, *self.shape(example, after)), example
            assert output.isfinite().all()
            assert sum(p.numel() for p in modules.parameters()) == example.copies * cost.parameters, example
            if record.name not in self.uncounted:
                assert counter.get_total_flops() == BATCH * example.copies * cost.flops, example


def run(modules: nn.ModuleList, inputs: list[Tensor]) -> Tensor:
    """One after the other; the first gets all."""
    x = inputs[0]
    for place, module in enumerate(modules):
        x = module(*inputs) if place == 0 else module(x)
    return x


STATES = (State("im", (4, 6, 8)), State("im", (4, 8)), State("col", (12, 8), (3, 4)), State("col", (12, 4)))


class TestTerminals(OperationContract):
    records = TERMINALS
    uncounted = ("ssm", "xd")  # transforms, and products that add in place: see the tests of these

    def examples(self) -> Iterator[Example]:
        layouts = (Layout(), Layout(2), Layout(2, shared=True))
        for record, state, layout in product(self.records.values(), STATES, layouts):
            if layout.shared and record.wants_own:
                continue
            copies = 1 if layout.shared and record.keeps_sharing else layout.copies
            shape = (2, *state.shape) if layout.lead == 2 else state.shape
            for args in record.offered(state.mode, len(state.shape)):
                if record.after(args, state):
                    yield Example(record, args, state, layout, (shape,), copies)

    def shape(self, example: Example, after: State) -> tuple[int, ...]:
        shared = example.place.copies == 1 or (example.place.shared and example.record.keeps_sharing)
        return after.shape if shared else (2, *after.shape)


class TestSplits(OperationContract):
    records = SPLITS

    def examples(self) -> Iterator[Example]:
        for record, state in product(self.records.values(), STATES):
            for args in record.offered(state.mode, len(state.shape)):
                if record.after(args, state):
                    yield Example(record, args, state, 1, (state.shape,))

    def shape(self, example: Example, after: State) -> tuple[int, ...]:
        return (example.args[-1], *after.shape)


class TestMerges(OperationContract):
    records = MERGES

    def examples(self) -> Iterator[Example]:
        shapes = ((6, 4), (4, 6), (6, 5), (3, 6, 4), (3, 4, 6))
        for record, first, last in product(self.records.values(), shapes, shapes):
            for args in record.offered("im", len(first)):
                if record.after(args, Branches(first, last, 2)):
                    yield Example(record, args, Branches(first, last, 2), 1, (first, last))

    def shape(self, example: Example, after: tuple[int, ...]) -> tuple[int, ...]:
        return after


class TestOperationsOfCells(OperationContract):
    records = OPERATIONS

    def examples(self) -> Iterator[Example]:
        places = (((9, 6), (1, 1)), ((9, 6), (2, 2)), ((7,), (2,)), ((4, 3, 5), (1, 2, 1)))
        for record, (sizes, stride), channels in product(self.records.values(), places, (32, 3)):
            site = Site(channels, sizes, stride, 2 * channels)
            yield Example(record, (), site, True, ((channels, *sizes),))

    def shape(self, example: Example, after: tuple[int, ...]) -> tuple[int, ...]:
        return after


def test_every_operation_of_a_space_is_under_contract() -> None:
    known = {name for one in OperationContract.__subclasses__() for name in one.records}
    assert known >= {*EVERY, *OPERATIONS}
