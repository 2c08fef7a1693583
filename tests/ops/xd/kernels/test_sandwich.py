"""The kernel that mixes channels and taps, against einsum in double precision, on views of any strides."""

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
    from eclose.ops.xd.kernels.sandwich import mixed

    batch, groups, high, low, lines, columns, more, less = shape
    z = random(batch, lines, groups, low, high, columns, seed=1).permute(0, 2, 4, 3, 1, 5)
    matrix = random(groups, more, less, high, low)
    flat, expected = matrix.flatten(3).flatten(1, 2), exact(matrix, z)
    for dtype, bound in ((torch.float32, 1e-5), (torch.bfloat16, 0.02)):
        out = torch.full((batch, groups, more, lines, less, columns), torch.nan, device="cuda", dtype=dtype)
        for given in (flat, flat.mT.contiguous().mT):
            assert close(mixed(given.to(dtype), z.to(dtype), out.transpose(3, 4)), expected, bound)


@pytest.mark.parametrize("channels", [1, 5, 21])
def test_in_place(channels):
    from eclose.ops.xd.kernels.sandwich import mixed

    z = (
        random(2, channels, 14, 3, 77, seed=1).transpose(2, 3).unsqueeze(1)
    )  # (batch, 1, channels, taps, lines, columns)
    matrix = random(1, channels, 3, channels, 3)
    expected = exact(matrix, z)
    assert close(mixed(matrix.flatten(3).flatten(1, 2), z, z), expected, 1e-5)
