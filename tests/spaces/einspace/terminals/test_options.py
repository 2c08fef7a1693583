"""The grammar is that of section 3.3 and appendix A.2."""

import pytest

from eclose.spaces.einspace.grammar import FACTORS, Op, kept
from eclose.spaces.einspace.terminals.options import computations, merges, routes, splits


def test_terminals_of_images() -> None:
    assert len(splits(3)) == 12
    assert [len(merges(3, ways)) for ways in (2, 4, 8)] == [6, 4, 4]
    assert len(routes("R1", "im", 3)) == 1 + 5 + 7
    assert len(routes("R2", "im", 3)) == 1 + 5
    assert routes("R1", "col", 2) == (Op("identity"), Op("permute", (2, 1)))
    assert routes("R2", "col", 2) == (Op("identity"), Op("permute", (2, 1)), Op("col2im"))
    assert len(computations()) == 13


def test_products_merge_two_branches_only() -> None:
    for ways in (4, 8):
        assert not any("matmul" in op.name for op in merges(2, ways))


@pytest.mark.parametrize(("dims", "orders"), [(2, 1), (3, 5), (4, 23)])
def test_every_order_of_the_axes_but_the_identity(dims: int, orders: int) -> None:
    permutes = [op for op in routes("R2", "im", dims) if op.name == "permute"]
    assert len(permutes) == len(set(permutes)) == orders
    assert Op("permute", tuple(range(1, dims + 1))) not in permutes


def test_repeated_branches_are_drawn_once() -> None:
    assert [kept(ways) for ways in FACTORS] == [2, 1, 1]
