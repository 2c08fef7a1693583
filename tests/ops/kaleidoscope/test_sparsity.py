import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eclose.ops.kaleidoscope import sparse, sparse_from_dense
from eclose.ops.kaleidoscope.truth import by_stages

from .cases import MIXED, POWERS, dense, noise, seeded


def check(target):
    matrix = sparse_from_dense(target, dtype=torch.float64)
    assert matrix.depth == 6
    assert matrix.orders == (True, False, True, False, True, False)
    assert torch.equal(dense(matrix), target + 0j)


@pytest.mark.parametrize("size", POWERS + MIXED)
def test_random_patterns_are_exact(size):
    for seed, count in enumerate({0, 1, size // 2, size}):
        target = torch.zeros(size * size, dtype=torch.complex128)
        places = torch.randperm(size * size, generator=seeded(seed))[:count]
        target[places] = torch.complex(noise(count), noise(count, seed=2))
        check(target.reshape(size, size))


@pytest.mark.parametrize("size", [1, 2, 8, 15, 36, 85])
def test_full_rows_and_columns(size):
    for line in {0, size // 2, size - 1}:
        target = torch.zeros(size, size, dtype=torch.float64)
        target[line] = noise(size)
        check(target)
        check(target.T)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([4, 6, 8, 12, 15, 16]).flatmap(
        lambda n: st.tuples(
            st.just(n), st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), min_size=0, max_size=n)
        )
    )
)
def test_patterns_of_any_kind(case):
    size, places = case
    target = torch.zeros(size, size, dtype=torch.float64)
    for number, (row, column) in enumerate(sorted(places), start=1):
        target[row, column] = number
    check(target)


def test_entries_at_one_place_add_up_and_order_is_free():
    rows, columns = torch.tensor([3, 0, 3]), torch.tensor([1, 2, 1])
    matrix = sparse(4, rows, columns, torch.tensor([[1.0, 2.0], [5.0, 0.0], [3.0, -7.0]]))
    expected = torch.zeros(4, 4, dtype=torch.complex64)
    expected[3, 1], expected[0, 2] = 4 - 5j, 5
    assert torch.equal(dense(matrix), expected)
    assert torch.equal(by_stages(matrix), expected)


def test_more_than_n_entries_are_refused():
    with pytest.raises(ValueError, match="5 entries given; six blocks of size 4 hold at most 4"):
        sparse(4, torch.arange(5) % 4, torch.arange(5) // 4, torch.ones(5, 2))
    with pytest.raises(ValueError, match="must lie in 0 to 3"):
        sparse(4, torch.tensor([4]), torch.tensor([0]), torch.ones(1, 2))
