"""Shapes that the paper states, and where operations do not fit; that they are right is seen in test_builder."""

import pytest

from eclose.signature import Signature
from eclose.spaces.einspace.grammar import Op
from eclose.spaces.einspace.terminals.options import merge_step, step
from eclose.spaces.einspace.terminals.state import State, input_state

IMAGE = State("im", (3, 32, 32))
TOKENS = State("col", (12, 8), (3, 4))


def apply(op: Op, state: State | None) -> State | None:
    option = state and step(op, state)
    return option and option.after


def merge(op: Op, states: tuple[State, ...], ways: int) -> State | None:
    option = merge_step(op, Op("clone", (ways,)), states)
    return option and option.after


def test_the_convolution_of_table_3() -> None:
    columns = apply(Op("im2col", (7, 2, 3)), IMAGE)
    assert columns == State("col", (256, 3 * 7 * 7), (16, 16))
    features = apply(Op("linear", (64,)), columns)
    assert features == State("col", (256, 64), (16, 16))
    assert apply(Op("col2im"), features) == State("im", (64, 16, 16))


def test_the_stored_shape_of_a_rectangle() -> None:
    columns = apply(Op("im2col", (3, 2, 1)), State("im", (5, 7, 12)))
    assert columns == State("col", (4 * 6, 45), (4, 6))
    assert apply(Op("col2im"), columns) == State("im", (45, 4, 6))


@pytest.mark.parametrize(
    ("op", "state"),
    [
        (Op("im2col", (4, 4, 0)), State("im", (3, 3, 9))),
        (Op("im2col", (1, 1, 0)), TOKENS),
        (Op("col2im"), IMAGE),
        (Op("col2im"), State("col", (12, 8))),
        (Op("col2im"), State("col", (8, 12), (3, 4))),
        (Op("group", (1, 2)), IMAGE),
        (Op("group", (3, 2)), TOKENS),
        (Op("permute", (2, 1)), IMAGE),
    ],
)
def test_what_does_not_fit(op: Op, state: State) -> None:
    assert apply(op, state) is None


def test_merges() -> None:
    one, two = State("col", (6, 4), (2, 3)), State("col", (4, 5), (2, 3))
    assert merge(Op("matmul"), (one, two), 2) == State("col", (6, 5), (2, 3))
    assert merge(Op("matmul"), (two, one), 2) is None
    assert merge(Op("matmul"), (State("col", (4, 4)),), 4) is None
    assert merge(Op("add"), (one, two), 2) is None
    assert merge(Op("concat", (2,)), (one,), 8) == State("col", (6, 32), (2, 3))
    assert merge(Op("concat", (1,)), (one, State("col", (9, 4))), 2) == State("col", (15, 4)), "no common stored shape"
    assert merge(Op("concat", (3,)), (one,), 4) is None
    assert merge(Op("add"), (State("im", (6, 4)), State("col", (6, 4))), 2) is None, "modes differ"
    images = State("im", (3, 4, 5)), State("im", (3, 5, 7))
    assert merge(Op("scaled-matmul"), images, 2) == State("im", (3, 4, 7))


def test_tokens_enter_as_a_sequence_that_can_become_a_signal() -> None:
    state = input_state(Signature("classification", 1, (18,), 6, vocabulary=30))
    assert state == State("col", (18, 64), (18,))
    assert apply(Op("col2im"), state) == State("im", (64, 18))
