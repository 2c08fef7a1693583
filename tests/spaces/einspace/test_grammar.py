"""The grammar is that of section 3.3 and appendix A.2."""

import pytest

from eclose.spaces.einspace import grammar
from eclose.spaces.einspace.grammar import Op


def test_terminals_of_images() -> None:
    assert len(grammar.splits(3)) == 12
    assert [len(grammar.merges(3, ways)) for ways in (2, 4, 8)] == [6, 4, 4]
    assert len(grammar.routes_before("im", 3)) == 1 + 5 + 7
    assert len(grammar.routes_after("im", 3)) == 1 + 5
    assert grammar.routes_before("col", 2) == (Op("identity"), Op("permute", (2, 1)))
    assert grammar.routes_after("col", 2) == (Op("identity"), Op("permute", (2, 1)), Op("col2im"))
    assert len(grammar.COMPUTATIONS) == 13


def test_products_merge_two_branches_only() -> None:
    for ways in (4, 8):
        assert not any("matmul" in op.name for op in grammar.merges(2, ways))


@pytest.mark.parametrize(("dims", "orders"), [(2, 1), (3, 5), (4, 23)])
def test_every_order_of_the_axes_but_the_identity(dims: int, orders: int) -> None:
    permutes = [op for op in grammar.routes_after("im", dims) if op.name == "permute"]
    assert len(permutes) == len(set(permutes)) == orders
    assert Op("permute", tuple(range(1, dims + 1))) not in permutes


def test_repeated_branches_are_drawn_once() -> None:
    assert [grammar.kept(ways) for ways in grammar.FACTORS] == [2, 1, 1]
