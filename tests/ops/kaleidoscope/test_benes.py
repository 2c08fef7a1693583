import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eclose.ops.kaleidoscope import permutation, stages
from eclose.ops.kaleidoscope.benes import colours
from eclose.ops.kaleidoscope.truth import by_stages

from .cases import RADICES, SIZES, dense, seeded


def check(index, radices=None):
    for increasing in (False, True):
        matrix = permutation(index, radices=radices, increasing=increasing)
        assert matrix.orders == (increasing, not increasing)
        assert set(matrix.entries.unique().tolist()) <= {0.0, 1.0}
        assert torch.equal(dense(matrix), torch.eye(len(index))[index] + 0j)


@pytest.mark.parametrize("radices", RADICES)
def test_random_permutations_are_exact_in_two_blocks(radices):
    for seed in range(3):
        check(torch.randperm(math.prod(radices), generator=seeded(seed)), radices)


@pytest.mark.parametrize("radices", [(2, 2), (2, 3), (3, 2), (5,)])
def test_every_permutation(radices):
    for index in itertools.permutations(range(math.prod(radices))):
        matrix = permutation(torch.tensor(index), radices=radices)
        assert torch.equal(dense(matrix), torch.eye(len(index))[list(index)] + 0j)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([8, 12, 15, 16, 30, 36, 45]).flatmap(lambda n: st.permutations(range(n))))
def test_permutations_of_any_kind(index):
    check(torch.tensor(index))


@pytest.mark.parametrize("size", SIZES)
def test_extreme_permutations(size):
    for index in (torch.arange(size), torch.arange(size).flip(0), torch.arange(size).roll(1)):
        check(index)


def test_stages_are_permutations_of_their_own():
    matrix = permutation(torch.randperm(36, generator=seeded()))
    entries = matrix.entries[..., 0]
    for block in entries:
        start, left = 0, 1
        for radix in stages(36):
            stage = block[start : start + 36 * radix].reshape(left, radix, radix, -1)
            assert torch.equal(stage.sum(1), torch.ones_like(stage.sum(1)))
            assert torch.equal(stage.sum(2), torch.ones_like(stage.sum(2)))
            start, left = start + 36 * radix, left * radix
    assert torch.equal(by_stages(matrix), dense(matrix))


def test_large():
    index = torch.randperm(1024, generator=seeded())
    x = torch.arange(1024.0)
    signal = torch.stack([x, -x], dim=-1)
    assert torch.equal(permutation(index).apply(signal)[:, 0], x[index])


def test_only_permutations():
    with pytest.raises(ValueError, match="not a permutation of 0 to 3"):
        permutation(torch.tensor([0, 1, 1, 3]))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(1, 12), st.randoms(use_true_random=False))
def test_colours_differ_at_every_vertex(degree, vertices, random):
    left = [v for v in range(vertices) for _ in range(degree)]
    right = list(left)
    random.shuffle(right)
    found = colours(left, right, degree)
    for side in (left, right):
        seen = {(vertex, colour) for vertex, colour in zip(side, found, strict=True)}
        assert len(seen) == degree * vertices
    assert set(found) == set(range(degree))
