import pytest
import torch

from eclose.ops.kaleidoscope import KMatrix, diagonal_left, diagonal_right, pairs
from eclose.ops.kaleidoscope.truth import by_stages

from .cases import RADICES, arbitrary, close, dense, noise


@pytest.mark.parametrize("increasing", [False, True])
@pytest.mark.parametrize("radices", RADICES)
def test_a_diagonal_is_absorbed_on_either_side(radices, increasing):
    for depth in (1, 2):
        matrix = arbitrary(radices, depth, increasing=increasing)
        z = noise(matrix.size, 2)
        diagonal, full = torch.diag(pairs.to_complex(z)), by_stages(matrix)
        left, right = diagonal_left(z, matrix), diagonal_right(matrix, z)
        assert left.orders == right.orders == matrix.orders
        close(dense(left), diagonal @ full)
        close(dense(right), full @ diagonal)


def test_batches_broadcast():
    matrix, z = arbitrary((2, 3), 2, batch=(3, 1)), noise(2, 6, 2)
    got = diagonal_left(z, matrix)
    assert got.batch == (3, 2)
    close(dense(got), torch.diag_embed(pairs.to_complex(z)) @ dense(matrix))


def test_gradients():
    entries, z = arbitrary((2, 3), 2).entries.requires_grad_(), noise(6, 2).requires_grad_()
    for increasing in (False, True):
        assert torch.autograd.gradcheck(
            lambda e, d, i=increasing: diagonal_left(d, diagonal_right(KMatrix(e, (2, 3), i), d)).dense(), (entries, z)
        )
