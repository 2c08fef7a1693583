"""One record makes a terminal: it is written, drawn, measured, built and exchanged without another line."""

import random
from collections.abc import Iterator
from functools import _lru_cache_wrapper
from math import prod

import pytest
import torch
from torch import Tensor, nn

from eclose.signature import Signature
from eclose.spaces.einspace import Settings, build, cost_of, mutate, parse, sample, text
from eclose.spaces.einspace.terminals import options
from eclose.spaces.einspace.terminals.record import Terminal, by_name, unchanged
from eclose.spaces.operation import Arguments, Cost

IMAGES = Signature("classification", 3, (8, 8), 4)


class Power(nn.Module):
    """``a * |x|^n`` with a learned ``a``, one for each copy."""

    def __init__(self, exponent: int, copies: int) -> None:
        super().__init__()
        self.exponent, self.factor = exponent, nn.Parameter(torch.arange(1.0, copies + 1))

    def forward(self, x: Tensor) -> Tensor:
        shape = (-1, *[1] * (x.ndim - 2)) if len(self.factor) > 1 else ()
        return self.factor.reshape(shape) * x.abs() ** self.exponent


POWER = Terminal(
    name="power",
    kind="function",
    words="power",
    sizes="of {0}",
    symbols=("C",),
    arguments=Arguments(lambda args: len(args) == 1 and args[0] > 1, "(exponent)"),
    offered=lambda mode, dims: [(2,), (3,)],
    after=unchanged,
    cost=lambda args, before, after: Cost(1, 0, prod(after.shape)),
    build=lambda args, state, layout: [Power(args[0], layout.copies)],
    wants_own=True,
)


@pytest.fixture
def powers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The grammar with one more record in its tables."""
    for table in (options.TERMINALS, options.EVERY):
        monkeypatch.setitem(table, "power", POWER)
    remembered = [value for value in vars(options).values() if isinstance(value, _lru_cache_wrapper)]
    for answers in remembered:
        answers.cache_clear()
    yield
    for answers in remembered:
        answers.cache_clear()


@pytest.mark.usefixtures("powers")
def test_a_record_is_a_terminal() -> None:
    rng = random.Random(0)
    drawn = [text(sample(IMAGES, rng, Settings(nodes=60))) for _ in range(200)]
    assert any("power(2)" in tree for tree in drawn)
    tree = parse("seq(linear(16), branch(clone(4), power(3), add))")
    assert cost_of(tree, IMAGES) == cost_of(parse("seq(linear(16), seq(relu, relu))"), IMAGES) + Cost(
        4, 0, 3 * 3 * 8 * 16
    )
    x = torch.randn(2, 3, 8, 8)
    network = build(tree, IMAGES)
    y = network.body(x)
    torch.testing.assert_close(y, 10 * network.body[0](x).abs() ** 3)
    children = {text(mutate(parse("seq(norm, power(2))"), IMAGES, random.Random(seed))) for seed in range(200)}
    assert "seq(norm, power(3))" in children
    with pytest.raises(Exception, match=r"power\(1\): write power\(exponent\)"):
        parse("seq(norm, power(1))")


def test_tables_are_by_name() -> None:
    assert list(by_name(POWER)) == ["power"]
