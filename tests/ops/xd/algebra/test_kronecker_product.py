"""Kronecker products against torch's, values and derivatives."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.func import vmap

from eclose.ops.kaleidoscope import pairs
from eclose.ops.xd.algebra.kronecker_product import kronecker
from tests.ops.xd.cases import signal

gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=gpu)])


@devices
def test_products_are_those_of_torch(device):
    x, y = signal(3, 2, 4, 35).to(device), signal(3, 2, 2, 33, seed=4).to(device)
    for one, other, found in zip(x, y, kronecker([x, y]), strict=True):
        expected = torch.kron(*(pairs.to_complex(z.movedim(0, -1)) for z in (one, other)))
        torch.testing.assert_close(pairs.to_complex(found.movedim(0, -1)), expected)


@devices
def test_a_zero_row_makes_their_number_even(device):
    matrices = [signal(2, 2, 3, 2), signal(2, 2, 5, 1, seed=4), signal(2, 2, 1, 3, seed=5)]
    matrices = [matrix.to(device) for matrix in matrices]
    one, other, last = (pairs.to_complex(matrix[1].movedim(0, -1)) for matrix in matrices)
    found = pairs.to_complex(kronecker(matrices)[1].movedim(0, -1))
    assert found.shape == (16, 6)
    torch.testing.assert_close(found[:15], torch.kron(torch.kron(one, other), last))
    assert not found[15].any()


@devices
def test_derivatives_by_differences(device):
    x, y = (signal(2, 2, 3, size, seed=size).to(device).requires_grad_() for size in (1, 2))
    assert gradcheck(lambda *parts: kronecker(parts), (x, y))
    assert gradgradcheck(lambda *parts: kronecker(parts), (x, y))


@devices
def test_many_batches_at_once(device):
    x, y = signal(3, 2, 2, 3, 2).to(device), signal(3, 2, 2, 5, 1, seed=4).to(device)
    for one, other, found in zip(x, y, vmap(lambda *parts: kronecker(parts))(x, y), strict=True):
        torch.testing.assert_close(found, kronecker([one, other]))
