"""Chains of merged factors against dense matrices."""

import pytest
import torch

from eclose.ops.kaleidoscope import KMatrix, pairs
from eclose.ops.xd.chains import Chain, derivatives
from tests.ops.xd.cases import agree, signal

KINDS = [((2, 2, 2), 1), ((2, 2, 2, 2), 2), ((2, 3, 5), 3), ((3, 2), 4), ((5, 17), 1), ((7,), 1), ((7,), 2), ((1,), 3)]


def matrix_of(radices, depth, increasing):
    size = torch.Size(radices).numel()
    return KMatrix(signal(depth, size * sum(radices), 2), radices, increasing)


def together(z):
    return torch.complex(z[0], z[1])


@pytest.mark.parametrize("increasing", [False, True])
@pytest.mark.parametrize(("radices", "depth"), KINDS)
class TestChain:
    def test_analysis(self, radices, depth, increasing):
        matrix = matrix_of(radices, depth, increasing)
        x = signal(matrix.size, 3, 2)
        dense = pairs.to_complex(matrix.dense())
        expected = torch.einsum("pu,u...->p...", dense, x + 0j)
        found = Chain.of(matrix).analysis(x)
        assert len(found) == depth + 2
        agree([together(found[-1])], [expected])

    def test_synthesis(self, radices, depth, increasing):
        matrix = matrix_of(radices, depth, increasing)
        z = signal(2, matrix.size, 3, 2)
        chain, dense = Chain.of(matrix), pairs.to_complex(matrix.dense())
        for one, other in [(chain, dense), (chain.adjoint(), dense.mH)]:
            expected = torch.einsum("pu,u...->p...", other, together(z)).real
            agree([one.real(one.synthesis(z)[-1], (3, 2))], [expected])

    def test_derivatives(self, radices, depth, increasing):
        chain = Chain.of(matrix_of(radices, depth, increasing))
        x = signal(torch.Size(radices).numel(), 4)
        cotangent = signal(2, *x.shape, seed=3)
        factors = [factor.clone().requires_grad_() for factor in chain.factors]
        again = Chain(factors, chain.digits, chain.low_first, chain.low_last)
        expected = torch.autograd.grad((again.analysis(x)[-1] * cotangent).sum(), factors)
        with torch.no_grad():
            found = derivatives(chain.analysis(x)[:-1], chain.adjoint().synthesis(cotangent))
        agree(found, expected)
