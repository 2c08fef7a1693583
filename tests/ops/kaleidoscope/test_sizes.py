import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eclose.ops.kaleidoscope import digit_reversal, identity, next_smooth, stages
from eclose.ops.kaleidoscope.sizes import digits

from .cases import RADICES


@pytest.mark.parametrize(
    ("size", "radices"),
    [(1, (1,)), (2, (2,)), (64, (2,) * 6), (85, (5, 17)), (36, (2, 2, 3, 3)), (30, (2, 3, 5)), (7, (7,))],
)
def test_stages_are_the_prime_factors(size, radices):
    assert stages(size) == radices


@pytest.mark.parametrize(
    ("size", "largest", "radices"),
    [
        (36, 6, (6, 6)),
        (64, 8, (8, 8)),
        (64, 4, (4, 4, 4)),
        (85, 17, (5, 17)),
        (1, 4, (1,)),
        (12, 12, (12,)),
        (30, 6, (5, 6)),
    ],
)
def test_fewest_stages(size, largest, radices):
    assert stages(size, largest, fewest=True) == radices


@settings(deadline=None)
@given(st.integers(1, 3000))
def test_stages_multiply_to_the_size(size):
    for fewest in (False, True):
        if next_smooth(size) == size:
            radices = stages(size, fewest=fewest)
            assert math.prod(radices) == size
            assert max(radices) <= 17


def test_a_large_prime_is_refused_with_the_way_out():
    with pytest.raises(
        ValueError, match="106 has the prime factor 53, larger than 17: pad to 108, or allow it with largest=53"
    ):
        stages(106)
    assert stages(106, 53) == (2, 53)
    with pytest.raises(ValueError, match="at least 1, not 0"):
        stages(0)


@pytest.mark.parametrize(
    ("size", "expected"), [(1, 1), (85, 85), (106, 108), (141, 143), (211, 216), (421, 425), (1024, 1024)]
)
def test_next_smooth(size, expected):
    assert next_smooth(size) == expected


@pytest.mark.parametrize(("size", "largest", "expected"), [(106, 7, 108), (141, 7, 144), (421, 5, 432), (421, 2, 512)])
def test_next_smooth_with_smaller_primes(size, largest, expected):
    assert next_smooth(size, largest) == expected


def test_next_smooth_needs_a_prime():
    with pytest.raises(ValueError, match="no prime factors up to 1"):
        next_smooth(5, 1)


@pytest.mark.parametrize("radices", RADICES)
def test_digit_reversal_reads_digits_backwards(radices):
    index = digit_reversal(radices)
    for position, value in enumerate(index.tolist()):
        expected, weight, rest = 0, 1, position
        stride = math.prod(radices)
        for radix in radices:
            stride //= radix
            digit, rest = divmod(rest, stride)
            expected += weight * digit
            weight *= radix
        assert value == expected


def test_bit_reversal():
    assert digit_reversal((2, 2, 2)).tolist() == [0, 4, 2, 6, 1, 5, 3, 7]


def test_digits():
    assert digits(torch.tensor([0, 7, 11]), (2, 3, 2)).tolist() == [[0, 0, 0], [1, 0, 1], [1, 2, 1]]


def test_radices_must_make_the_size():
    with pytest.raises(ValueError, match=r"radices \(2, 3\) must be positive and multiply to 8"):
        identity(8, radices=(2, 3))
