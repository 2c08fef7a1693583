"""Transforms of all axes and their derivatives, against complex arithmetic; on a GPU of sizes that kernels serve."""

import pytest
import torch

from eclose.ops.xd.algebra.pairs_first import analysis, but_last, matrix_gradients, returned

SMALL = [((3, 4), [(5, 7)]), ((1, 2), [(3, 4), (6, 5)]), ((2, 1), [(1, 1), (3, 2), (2, 5)])]
"""Rows, and the matrix of every axis."""

LARGE = [
    ((40, 33), [(1028, 1021)]),  # matrices are turned for the way back, and so are signals for the derivatives
    ((40, 65), [(420, 17)]),  # thin
    ((33, 20), [(9, 9), (90, 32)]),
]


def given(rows, shapes, dtype=torch.float64, device="cpu"):
    generator = torch.Generator().manual_seed(0)
    matrices = [torch.randn(2, *shape, generator=generator) for shape in shapes]
    x = torch.randn(*rows, *[m for _, m in shapes], generator=generator)
    z = torch.randn(2, *[n for n, _ in shapes], *rows, generator=generator)
    return [tensor.to(device, dtype) for tensor in (x, z, *matrices)]


def complexes(tensor):
    return torch.complex(tensor[0].double(), tensor[1].double())


def spectrum(x, matrices):
    """``(n_1, .., n_N, *rows)``."""
    found = x.to(torch.complex128)
    for axis, matrix in enumerate(matrices):
        found = torch.tensordot(complexes(matrix), found, dims=([1], [2 + axis])).movedim(0, 2 + axis)
    return found.movedim((0, 1), (-2, -1))


def agree(found, expected, bound):
    assert found.shape == expected.shape
    assert (found - expected).norm() < bound * expected.norm()


def check(x, z, *matrices, bound):
    inputs = [tensor.double().requires_grad_() for tensor in (x, *matrices)]
    expected = spectrum(*inputs[:1], inputs[1:])
    slopes = torch.autograd.grad((expected.conj() * complexes(z)).real.sum(), inputs)
    with torch.no_grad():
        signals, cotangents = analysis(x, matrices), returned(z, matrices)
        agree(signals[-1], torch.stack([expected.real, expected.imag]), bound)
        agree(cotangents[-1], slopes[0], bound)  # the way back is the adjoint
        for one, other in zip(matrix_gradients(signals[:-1], but_last(z, matrices)), slopes[1:], strict=True):
            agree(one, other, bound)


@pytest.mark.parametrize(("rows", "shapes"), SMALL)
def test_transforms_and_their_derivatives(rows, shapes):
    check(*given(rows, shapes), bound=1e-13)


cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.gpu
@cuda
@pytest.mark.parametrize(("rows", "shapes"), SMALL + LARGE)
def test_by_kernels(rows, shapes):
    check(*given(rows, shapes, torch.float32, "cuda"), bound=1e-5)
