import itertools

import numpy as np
import pytest
import torch

from eclose.backbones import SpectralConv


def by_numpy(x, weight, modes):
    """Every frequency on its own, with numpy's transforms: rfft of the last axis, fft of the others."""
    space = x.shape[2:]
    spectrum = np.fft.rfft(x, axis=-1)
    for axis in range(2, x.ndim - 1):
        spectrum = np.fft.fft(spectrum, axis=axis)
    mixed = np.zeros((x.shape[0], weight.shape[1], *spectrum.shape[2:]), dtype=complex)
    signed = [np.rint(np.fft.fftfreq(n) * n).astype(int) for n in space[:-1]]
    for place in itertools.product(*map(range, spectrum.shape[2:])):
        frequency = [line[i] for line, i in zip(signed, place, strict=False)]
        if place[-1] < modes and all(-modes <= k < modes for k in frequency):
            row = tuple(k if k >= 0 else 2 * modes + k for k in frequency) + (place[-1],)
            matrix = weight[(slice(None), slice(None), *row, 0)] + 1j * weight[(slice(None), slice(None), *row, 1)]
            mixed[(slice(None), slice(None), *place)] = spectrum[(slice(None), slice(None), *place)] @ matrix
    for axis in range(2, x.ndim - 1):
        mixed = np.fft.ifft(mixed, axis=axis)
    return np.fft.irfft(mixed, n=space[-1], axis=-1)


SPACES = [(16,), (7,), (5,), (4,), (1,), (12, 10), (9, 7), (6, 6), (5, 3), (2, 1), (1, 8), (8, 7, 6), (3, 2, 5)]


@pytest.mark.parametrize("space", SPACES)
def test_equals_the_numpy_transcription(space):
    torch.manual_seed(0)
    layer = SpectralConv(2, 3, modes=3, axes=len(space)).double()
    torch.nn.init.normal_(layer.weight)  # away from the start, where all parts are positive
    x = torch.randn(2, 2, *space, dtype=torch.float64)
    expected = by_numpy(x.numpy(), layer.weight.detach().numpy(), modes=3)
    np.testing.assert_allclose(layer(x).detach().numpy(), expected, rtol=1e-10, atol=1e-10)


def test_corners_of_li_et_al():
    """The slices of the published two-axis code, with its two weights side by side along the first axis."""
    m = 3
    layer = SpectralConv(2, 2, modes=m, axes=2).double()
    x = torch.randn(1, 2, 8, 9, dtype=torch.float64)
    first, second = torch.view_as_complex(layer.weight).split(m, dim=2)
    spectrum = torch.fft.rfft2(x, norm="ortho")
    mixed = torch.zeros_like(spectrum)
    mixed[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :m, :m], first)
    mixed[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -m:, :m], second)
    torch.testing.assert_close(layer(x), torch.fft.irfft2(mixed, s=(8, 9), norm="ortho"))


@pytest.mark.parametrize("space", [(6,), (3,), (5, 4), (2, 3), (4, 3, 3)])
def test_gradients(space):
    torch.manual_seed(0)
    layer = SpectralConv(2, 2, modes=2, axes=len(space)).double()
    x = torch.randn(1, 2, *space, dtype=torch.float64, requires_grad=True)

    def call(x, weight):
        return torch.func.functional_call(layer, {"weight": weight}, (x,))

    assert torch.autograd.gradcheck(call, (x, layer.weight.detach().clone().requires_grad_()))


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_start_and_storage(axes):
    torch.manual_seed(0)
    layer = SpectralConv(4, 5, modes=3, axes=axes)
    corners = 2 ** (axes - 1)
    assert layer.weight.numel() == corners * 4 * 5 * 3**axes * 2
    assert layer.weight.dtype == torch.float32
    assert layer.weight.min() >= 0
    assert 0.9 / 20 < layer.weight.max() < 1 / 20  # uniform below 1 / (inputs * outputs)


@pytest.mark.parametrize("axes", [1, 2])
def test_one_function_on_two_grids(axes):
    """A band-limited function goes to the same function, however finely it is sampled."""
    layer = SpectralConv(1, 2, modes=4, axes=axes).double()

    def sampled(n):
        t = torch.arange(n, dtype=torch.float64) / n * 2 * torch.pi
        line = 0.3 + torch.sin(t) - 2 * torch.cos(3 * t)
        return (line if axes == 1 else line[:, None] * torch.cos(2 * t + 1))[None, None]

    every_third = (slice(None), slice(None), *(slice(None, None, 3),) * axes)
    torch.testing.assert_close(layer(sampled(36))[every_third], layer(sampled(12)))


def test_half_precision_is_computed_in_single():
    layer = SpectralConv(2, 2, modes=3, axes=1)
    x = torch.randn(1, 2, 8).bfloat16()
    y = layer(x)
    assert y.dtype == torch.bfloat16
    assert torch.equal(y, layer(x.float()).bfloat16())
    assert layer.bfloat16()(x).dtype == torch.bfloat16
