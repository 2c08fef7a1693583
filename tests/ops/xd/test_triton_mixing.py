"""The kernels that mix channels and taps, against einsum in double precision, on views of any strides."""

import pytest
import torch

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

SHAPES = [  # batch, groups, high, low, lines, columns; high and low of the other side
    (2, 1, 3, 16, 8, 40, 16, 3),
    (3, 2, 2, 5, 7, 9, 4, 3),
    (1, 1, 1, 1, 1, 1, 1, 1),
    (2, 1, 3, 64, 5, 32, 64, 3),
    (1, 3, 70, 2, 4, 33, 1, 131),
]


def random(*shape, seed=0):
    return torch.randn(shape, device="cuda", generator=torch.Generator("cuda").manual_seed(seed))


def sides(shape):
    """Views whose lines lie outside of the channels, or of the taps."""
    batch, groups, high, low, lines, columns, more, less = shape
    z = random(batch, lines, groups, low, high, columns, seed=1).permute(0, 2, 4, 3, 1, 5)
    y = random(batch, groups, more, lines, less, columns, seed=2).transpose(3, 4)
    return y, z


def close(found, expected, bound):
    return (found - expected).norm() < bound * expected.norm()


@pytest.mark.parametrize("shape", SHAPES)
def test_every_pixel_is_multiplied_by_the_matrix(shape):
    from eclose.ops.xd.triton_mixing import mixed

    y, z = sides(shape)
    matrix = random(shape[1], *y.shape[2:4], *z.shape[2:4])
    expected = torch.einsum("gabhl,nghlij->ngabij", matrix.double(), z.double())
    flat = matrix.flatten(3).flatten(1, 2)
    assert close(mixed(flat, z, torch.full_like(y, torch.nan)), expected, 1e-5)
    turned = flat.mT.contiguous().mT
    assert close(mixed(turned, z, torch.full_like(y, torch.nan)), expected, 1e-5)
    halves = mixed(flat.bfloat16(), z.bfloat16(), torch.full_like(y, torch.nan, dtype=torch.bfloat16))
    assert close(halves, expected, 0.02)


@pytest.mark.parametrize("shape", SHAPES)
def test_products_are_summed_over_samples_and_pixels(shape):
    from eclose.ops.xd.triton_mixing import products

    y, z = sides(shape)
    expected = torch.einsum("ngabij,nghlij->gabhl", y.double(), z.double()).flatten(3).flatten(1, 2)
    found = products(y, z)
    assert close(found, expected, 1e-5)
    assert torch.equal(products(y, z), found)  # in whichever order programs end
    assert close(products(y.bfloat16(), z.bfloat16()), expected, 0.02)
