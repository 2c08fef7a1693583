"""Kronecker products against torch's, values and derivatives."""

import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.func import vmap

from eclose.ops.kaleidoscope import pairs
from eclose.ops.xd.kronecker_product import kronecker
from tests.ops.xd.cases import signal


def test_products_are_those_of_torch():
    x, y = signal(3, 2, 4, 5), signal(3, 2, 2, 3, seed=4)
    for one, other, found in zip(x, y, kronecker([x, y]), strict=True):
        expected = torch.kron(*(pairs.to_complex(z.movedim(0, -1)) for z in (one, other)))
        torch.testing.assert_close(pairs.to_complex(found.movedim(0, -1)), expected)


def test_a_zero_row_makes_their_number_even():
    matrices = [signal(2, 2, 3, 2), signal(2, 2, 5, 1, seed=4), signal(2, 2, 1, 3, seed=5)]
    one, other, last = (pairs.to_complex(matrix[1].movedim(0, -1)) for matrix in matrices)
    found = pairs.to_complex(kronecker(matrices)[1].movedim(0, -1))
    assert found.shape == (16, 6)
    torch.testing.assert_close(found[:15], torch.kron(torch.kron(one, other), last))
    assert not found[15].any()


def test_derivatives_by_differences():
    x, y = signal(2, 2, 3, 1).requires_grad_(), signal(2, 2, 3, 2, seed=4).requires_grad_()
    assert gradcheck(lambda *parts: kronecker(parts), (x, y))
    assert gradgradcheck(lambda *parts: kronecker(parts), (x, y))


def test_many_batches_at_once():
    x, y = signal(3, 2, 2, 3, 2), signal(3, 2, 2, 5, 1, seed=4)
    for one, other, found in zip(x, y, vmap(lambda *parts: kronecker(parts))(x, y), strict=True):
        torch.testing.assert_close(found, kronecker([one, other]))
