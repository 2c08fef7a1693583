"""Merged factors of K-matrices, multiplied out literally; signals through them are tested with the matrices."""

import pytest
import torch

from eclose.ops.kaleidoscope import monarch, pairs
from eclose.ops.kaleidoscope.truth import by_stages

from .cases import RADICES, arbitrary, close


@pytest.mark.parametrize("increasing", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("radices", RADICES)
def test_factors_are_the_matrix(radices, depth, increasing):
    matrix = arbitrary(radices, depth, increasing=increasing)
    high, low = monarch.halves(radices)
    found = monarch.factors(matrix.entries, radices, matrix.orders)
    assert len(found) == depth + 1
    product, on_low = torch.eye(matrix.size, dtype=torch.complex128), increasing
    for factor in found:
        blocks = pairs.to_complex(factor)
        assert blocks.shape == ((high, low, low) if on_low else (low, high, high))
        signal = product.reshape(high, low, -1)
        subscripts = "hol,hlu->hou" if on_low else "loh,hlu->olu"
        product, on_low = torch.einsum(subscripts, blocks, signal).reshape(matrix.size, -1), not on_low
    close(product, by_stages(matrix))


@pytest.mark.parametrize(
    ("radices", "expected"), [((2,) * 13, (64, 128)), ((5, 17), (5, 17)), ((7,), (1, 7)), ((2, 2, 17), (4, 17))]
)
def test_halves_are_of_similar_size(radices, expected):
    assert sorted(monarch.halves(radices)) == sorted(expected)
