import numpy as np
import pytest
import torch
from scipy.linalg import dft as scipy_dft

from eclose.ops.kaleidoscope import dft, digit_reversal, natural_dft, pairs, stages

from .cases import RADICES, SIZES, close, dense, noise

SCALES = {(False, False): None, (True, False): None, (False, True): "sqrtn", (True, True): "sqrtn"}


def truth(size, inverse, normalised):
    """scipy's matrix, ``exp(-2 pi i j k / n)``, or its inverse."""
    full = torch.from_numpy(scipy_dft(size, scale=SCALES[inverse, normalised]))
    return torch.linalg.inv(full) if inverse else full


@pytest.mark.parametrize("radices", RADICES)
@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("inverse", [False, True])
def test_one_block_is_the_transform_up_to_the_digit_reversal(radices, inverse, normalised):
    size = int(np.prod(radices))
    options = {"inverse": inverse, "normalised": normalised, "radices": radices, "dtype": torch.float64}
    expected, reversal = (
        truth(size, inverse, normalised),
        torch.eye(size, dtype=torch.complex128)[digit_reversal(radices)],
    )
    decreasing, increasing = dft(size, **options), dft(size, increasing=True, **options)
    assert decreasing.depth == increasing.depth == 1
    assert decreasing.orders == (False,)
    assert increasing.orders == (True,)
    close(dense(decreasing), reversal @ expected)
    close(dense(increasing), expected @ reversal.T)


@pytest.mark.parametrize("size", SIZES)
def test_natural_order_takes_three_blocks(size):
    for inverse in (False, True):
        matrix = natural_dft(size, inverse=inverse, dtype=torch.float64)
        assert matrix.depth == 3
        close(dense(matrix), truth(size, inverse, False))


@pytest.mark.parametrize("size", [64, 85, 512, 1000])
def test_signals_against_numpy(size):
    x = noise(3, size, 2, dtype=torch.float32)
    expected = torch.from_numpy(np.fft.fft(pairs.to_complex(x).numpy().astype(np.complex128)))
    got = pairs.to_complex(dft(size).apply(x))
    close(got.to(torch.complex128), expected[:, digit_reversal(stages(size))], 1e-5)
    back = pairs.to_complex(dft(size, inverse=True, increasing=True).apply(dft(size).apply(x)))
    close(back, pairs.to_complex(x), 1e-5)


def test_the_reversal_cancels_between_inverse_and_transform():
    """K = F^-1 P^T, M = P F: a circulant matrix, whatever the order of frequencies inside."""
    for size in (8, 12, 85):
        w, x = noise(size), noise(size, seed=2)
        k, m = (
            dense(dft(size, inverse=True, increasing=True, dtype=torch.float64)),
            dense(dft(size, dtype=torch.float64)),
        )
        expected = torch.stack([sum(w[j] * x[p - j] for j in range(size)) for p in range(size)])
        close((k @ ((m @ (w + 0j)) * (m @ (x + 0j)))).real, expected)
