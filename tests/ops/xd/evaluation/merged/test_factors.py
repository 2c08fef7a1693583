"""Chains of merged factors against dense matrices."""

import math

import pytest
import torch

from eclose.ops.kaleidoscope import KMatrix, monarch, pairs
from eclose.ops.xd.evaluation.merged.factors import Chain, factor_gradients, flat_factors, flattened
from tests.ops.xd.cases import agree, signal

KINDS = [((2, 2, 2), 1), ((2, 2, 2, 2), 2), ((2, 3, 5), 3), ((3, 2), 4), ((5, 17), 1), ((7,), 1), ((7,), 2), ((1,), 3)]


def matrix_of(radices, depth, increasing):
    size = torch.Size(radices).numel()
    return KMatrix(signal(depth, size * sum(radices), 2), radices, increasing)


def chain_of(matrix):
    return Chain.of(flat_factors(matrix), monarch.halves(matrix.radices), matrix.orders)


def together(z):
    return torch.complex(z[:, 0], z[:, 1])


@pytest.mark.parametrize("increasing", [False, True])
@pytest.mark.parametrize(("radices", "depth"), KINDS)
class TestChain:
    def test_analysis(self, radices, depth, increasing):
        matrix = matrix_of(radices, depth, increasing)
        x = signal(3, 2, matrix.size)
        chain, dense = chain_of(matrix), pairs.to_complex(matrix.dense())
        given = chain.analysis(x)
        assert len(given) == depth + 1
        agree([together(chain.spectrum(given[-1], (3, 2)))], [torch.einsum("pu,...u->p...", dense, x + 0j)])

    def test_synthesis(self, radices, depth, increasing):
        matrix = matrix_of(radices, depth, increasing)
        z = signal(matrix.size, 2, 3, 2)
        chain, dense = chain_of(matrix), pairs.to_complex(matrix.dense())
        for one, other in [(chain, dense), (chain.adjoint(), dense.mH)]:
            expected = torch.einsum("pu,u...->...p", other, together(z)).real
            agree([one.real(one.synthesis(z)[-1], (3, 2))], [expected])

    def test_derivatives(self, radices, depth, increasing):
        chain = chain_of(matrix_of(radices, depth, increasing))
        x = signal(4, math.prod(radices))
        cotangent = signal(x.shape[1], 2, 4, seed=3)
        factors = [factor.clone().requires_grad_() for factor in chain.factors]
        again = Chain(factors, chain.digits, chain.low_first, chain.low_last)
        result = again.spectrum(again.analysis(x)[-1], (4,))
        expected = torch.autograd.grad((result * cotangent).sum(), factors)
        with torch.no_grad():
            found = factor_gradients(chain.analysis(x), chain.adjoint().synthesis(cotangent))
        agree(found, expected)
        agree([flattened(found)], [torch.cat([slope.flatten(1) for slope in expected], dim=1)])
