"""Fourier transforms as products with matrices give what torch's own give, on sizes that are easy to get wrong."""

import pytest
import torch
from torch import Tensor

from eclose.exports.fourier_products import complex_transform, real_inverse, real_transform

SHAPES = [  # and the axes of the transform
    *(((2, size), (1,)) for size in (1, 2, 7, 8, 31, 128, 129, 131, 360, 1009, 8192)),
    *(((2, 5, 6), (1, 2)), ((2, 4, 1, 5), (1, 2, 3)), ((3, 2, 7, 300), (2, 3)), ((300, 4), (0,))),
]


def assert_near(got: Tensor, wanted: Tensor) -> None:
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    assert (got - wanted).abs().max() <= 3e-6 * wanted.abs().max()


@pytest.mark.parametrize("normalisation", [0, 1, 2])
@pytest.mark.parametrize(("shape", "axes"), SHAPES)
def test_values_are_those_of_torch(shape: tuple[int, ...], axes: tuple[int, ...], normalisation: int) -> None:
    generator, aten = torch.Generator().manual_seed(0), torch.ops.aten
    x, z = (torch.randn(shape, dtype=kind, generator=generator) for kind in (torch.float32, torch.complex64))
    for flag in (True, False):
        assert_near(real_transform(x, axes, normalisation, flag), aten._fft_r2c(x, axes, normalisation, flag))
        assert_near(complex_transform(z, axes, normalisation, flag), aten._fft_c2c(z, axes, normalisation, flag))
    size = shape[axes[-1]]
    half = z.narrow(axes[-1], 0, size // 2 + 1)  # of no real signal: the parts that such ones lack count for nothing
    assert_near(real_inverse(half, axes, normalisation, size), aten._fft_c2r(half, axes, normalisation, size))


def test_known_values() -> None:
    got = real_transform(torch.tensor([1.0, 0.0, -1.0, 0.0]), [0], 0, True)
    torch.testing.assert_close(got, torch.tensor([0, 2, 0], dtype=torch.complex64))
    wave = real_inverse(torch.tensor([0, 1j, 0]), [0], 0, 4)
    torch.testing.assert_close(wave, torch.tensor([0.0, -2.0, 0.0, 2.0]))


def test_a_long_axis_of_prime_length_is_left_to_onnx() -> None:
    assert real_transform(torch.zeros(4099), [0], 0, True) is NotImplemented
