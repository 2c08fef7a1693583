"""The kernels for sums over all samples, against einsum in double precision."""

import pytest
import torch

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def random(*shape, seed=0):
    return torch.randn(shape, device="cuda", generator=torch.Generator("cuda").manual_seed(seed))


def agree(function, given, expected):
    found = function(*given)
    assert found.shape == expected.shape
    assert (found - expected).norm() < 1e-5 * expected.norm()
    assert torch.equal(function(*given), found)  # in whichever order programs end
    halves = function(*(one.bfloat16() for one in given))
    assert halves.dtype == torch.bfloat16
    assert (halves - expected).norm() < 0.02 * expected.norm()


@pytest.mark.parametrize("shape", [(32, 128, 768, 128), (5, 7, 13, 3), (1, 1, 1, 1), (300, 65, 20, 70)])
def test_products_are_summed(shape):
    from eclose.ops.xd.kernels.sums import summed_products

    batch, rows, others, columns = shape
    y, z = random(batch, rows, columns, seed=1), random(batch, others, columns, seed=2)
    expected = torch.einsum("bic,bjc->ij", y.double(), z.double())
    agree(summed_products, (y, z), expected)
    agree(summed_products, (y.mT.contiguous().mT, z.mT.contiguous().mT), expected)


@pytest.mark.parametrize(
    ("groups", "c_in", "c_out", "sizes", "kernels", "out"),
    [
        (1, 16, 16, (128, 128), (3, 3), 128),
        (2, 3, 5, (7, 9), (2, 3), 11),
        (1, 1, 1, (1, 1), (1, 1), 1),
        (1, 40, 30, (5, 70), (3, 1), 33),
    ],
)
def test_the_slope_of_the_mixing(groups, c_in, c_out, sizes, kernels, out):
    from eclose.ops.xd.kernels.sums import mixing_slope

    x = random(2, groups * c_in, *sizes, seed=1)
    shift = random(2, kernels[1], out, sizes[1], seed=2)
    cotangent = random(2, groups * c_out, 2 * sizes[0], kernels[0], out, seed=3)
    signs = torch.tensor([1.0, -1.0], device="cuda", dtype=torch.float64)
    expected = torch.einsum(
        "bgiuv,ctqv,bgoucsq,c->gosti",
        x.double().unflatten(1, (groups, -1)),
        shift.double(),
        cotangent.double().unflatten(2, (-1, 2)).unflatten(1, (groups, -1)),
        signs,
    )
    expected = expected.flatten(3).flatten(1, 2)
    agree(lambda *given: mixing_slope(*given, groups), (x, shift, cotangent), expected)
