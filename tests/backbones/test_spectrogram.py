import numpy as np
import pytest
import torch
from scipy.signal import get_window

from eclose.backbones import spectrogram
from eclose.backbones.spectrogram import LogSpectrogram, usual_window
from eclose.errors import ConfigError, Unsuited
from eclose.signature import Signature

SOUNDS = Signature("classification", 2, (100,), 3)
FLOOR = 1e-3


def spectrum(x, window):
    """Spectrum by spectrum, by numpy."""
    hann, hop = get_window("hann", window), window // 4
    padded = np.pad(x, [(0, 0), (0, 0), (window // 2, window // 2)])
    moments = range(0, x.shape[2] + 1, hop)
    pieces = [np.fft.rfft(hann * padded[..., start : start + window]) for start in moments]
    return np.log(np.abs(np.stack(pieces, -1)) ** 2 / np.sum(hann**2) + FLOOR)


@pytest.mark.parametrize(("points", "window"), [(100, 16), (37, 8), (101, 6), (3, 4), (1, 4), (64, 10)])
def test_it_is_the_transform_of_every_window(points, window):
    x = torch.randn(3, 2, points, dtype=torch.float64)
    pictures = LogSpectrogram(window).double()(x)
    assert pictures.shape == (3, 2, window // 2 + 1, points // (window // 4) + 1)
    torch.testing.assert_close(pictures, torch.from_numpy(spectrum(x.numpy(), window)), rtol=1e-5, atol=1e-5)


def test_gradients():
    x = torch.randn(1, 2, 12, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(LogSpectrogram(8).double(), (x,))


def test_noise_has_the_same_power_at_all_frequencies_and_a_tone_its_place():
    noise = LogSpectrogram(32)(torch.randn(1, 1, 50_000))[0, 0].exp().mean(1)
    torch.testing.assert_close(noise, torch.ones(17), rtol=0.15, atol=0)
    tone = torch.cos(2 * torch.pi * 5 / 32 * torch.arange(400.0))
    assert LogSpectrogram(32)(tone[None, None])[0, 0].argmax(0)[3:-3].unique().tolist() == [5]


@pytest.mark.parametrize(("points", "window"), [(1, 4), (64, 16), (140, 32), (2048, 128), (16_000, 256)])
def test_windows_follow_the_length(points, window):
    assert usual_window(points) == window


def test_the_network_sees_a_picture():
    network = spectrogram(SOUNDS, width=4, regions=2, dropout=0.5).eval()
    pictures, norm, residual = network
    x = torch.randn(2, 2, 100)
    torch.testing.assert_close(network(x), residual(norm(pictures(x))))
    assert residual[-1].in_features % 4 == 0
    assert not any("filters" in name for name in network.state_dict()), "they follow from the window"


def test_refused():
    for options, says in (
        ({"window": 2}, "backbone.window is 2, but must be even and at least 4"),
        ({"window": 7}, "backbone.window is 7, but must be even"),
        ({"dropout": 1.0}, "dropout"),
    ):
        with pytest.raises(ConfigError, match=says):
            spectrogram(SOUNDS, **options)
    with pytest.raises(ConfigError, match="gives one answer a sample"):
        spectrogram(Signature("dense", 1, (64,), 1))
    with pytest.raises(Unsuited, match="is for signals along 1 axis, but an input has 2 here"):
        spectrogram(Signature("classification", 1, (8, 8), 2))
