"""The kernels of the sandwich order, against einsum in double precision: channels and taps mixed, sums over samples."""

import pytest
import torch

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

SHAPES = [  # batch, groups, high, low, lines, columns; high and low of what comes out
    (2, 1, 3, 16, 8, 40, 16, 3),
    (3, 2, 2, 5, 6, 9, 4, 3),
    (1, 1, 1, 1, 2, 1, 1, 1),
    (2, 1, 3, 64, 4, 32, 64, 3),
    (1, 3, 70, 2, 4, 33, 1, 131),
]


def random(*shape, seed=0):
    return torch.randn(shape, device="cuda", generator=torch.Generator("cuda").manual_seed(seed))


def close(found, expected, bound):
    return (found - expected).norm() < bound * expected.norm()


def exact(matrix, z):  # (groups, more, less, high, low), (batch, groups, high, low, lines, columns)
    found = torch.einsum("gabhl,nghlij->ngabij", matrix.double(), z.double())
    found[..., 1::2, :] *= -1
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_every_pixel_is_multiplied_by_the_matrix(shape):
    from eclose.ops.xd.kernels.sandwich import mix_pixels

    batch, groups, high, low, lines, columns, more, less = shape
    z = random(batch, lines, groups, low, high, columns, seed=1).permute(0, 2, 4, 3, 1, 5)
    matrix = random(groups, more, less, high, low)
    flat, expected = matrix.flatten(3).flatten(1, 2), exact(matrix, z)
    for dtype, bound in ((torch.float32, 1e-5), (torch.bfloat16, 0.02)):
        out = torch.full((batch, groups, more, lines, less, columns), torch.nan, device="cuda", dtype=dtype)
        for given in (flat, flat.mT.contiguous().mT):
            assert close(mix_pixels(given.to(dtype), z.to(dtype), out.transpose(3, 4)), expected, bound)


@pytest.mark.parametrize("channels", [1, 5, 21])
def test_in_place(channels):
    from eclose.ops.xd.kernels.sandwich import mix_pixels

    z = (
        random(2, channels, 14, 3, 77, seed=1).transpose(2, 3).unsqueeze(1)
    )  # (batch, 1, channels, taps, lines, columns)
    matrix = random(1, channels, 3, channels, 3)
    expected = exact(matrix, z)
    assert close(mix_pixels(matrix.flatten(3).flatten(1, 2), z, z), expected, 1e-5)


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
    from eclose.ops.xd.kernels.sandwich import summed_products

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
    from eclose.ops.xd.kernels.sandwich import mixing_slope

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
