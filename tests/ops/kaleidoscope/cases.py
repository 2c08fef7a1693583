"""Sizes and matrices that the tests of Kaleidoscope matrices share."""

import torch

from eclose.ops.kaleidoscope import KMatrix, butterfly, pairs, stages

POWERS = [2, 4, 8, 16, 32, 64]
MIXED = [1, 3, 5, 6, 7, 12, 15, 30, 36, 85]
SIZES = POWERS + MIXED
RADICES = [*map(stages, SIZES), (6, 6), (3, 2), (17, 5), (4, 4), (2, 8), (3, 4, 3), (1, 5, 1)]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def arbitrary(radices, depth=1, batch=(), increasing=False, seed=0, dtype=torch.float64):
    """Random entries: neither unitary nor near any named matrix."""
    shape = (*batch, depth, butterfly.entries_of(radices), 2)
    return KMatrix(torch.randn(shape, generator=seeded(seed), dtype=dtype), radices, increasing)


def dense(matrix):
    """Complex ``(*batch, n, n)``."""
    return pairs.to_complex(matrix.dense())


def noise(*shape, seed=1, dtype=torch.float64):
    return torch.randn(shape, generator=seeded(seed), dtype=dtype)


def close(got, expected, factor=1e-12):
    """Equal up to rounding, relative to the largest entry."""
    scale = max(1.0, expected.abs().max().item())
    torch.testing.assert_close(got, expected, rtol=0, atol=factor * scale)
