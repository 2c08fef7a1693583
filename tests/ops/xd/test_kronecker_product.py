"""Kronecker products against torch's, values and derivatives."""

import torch
from torch.autograd import gradcheck, gradgradcheck

from eclose.ops.kaleidoscope import pairs
from eclose.ops.xd.kronecker_product import kronecker
from tests.ops.xd.cases import signal


def test_products_are_those_of_torch():
    x, y = signal(3, 2, 4, 5), signal(3, 2, 2, 3, seed=4)
    for one, other, found in zip(x, y, kronecker(x, y), strict=True):
        expected = torch.kron(*(pairs.to_complex(z.movedim(0, -1)) for z in (one, other)))
        torch.testing.assert_close(pairs.to_complex(found.movedim(0, -1)), expected)


def test_derivatives_by_differences():
    x, y = signal(2, 2, 3, 1).requires_grad_(), signal(2, 2, 2, 3, seed=4).requires_grad_()
    assert gradcheck(kronecker, (x, y))
    assert gradgradcheck(kronecker, (x, y))
