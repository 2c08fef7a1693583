"""Sizes and their stages: into which radices a size is divided, and the order in which digits are read."""

import math
from functools import cache

import torch
from torch import Tensor

LARGEST = 17
"""Largest prime factor of a size that counts as small: a stage of radix r has r parameters a position."""

Radices = tuple[int, ...]


def stages(size: int, largest: int = LARGEST, *, fewest: bool = False) -> Radices:
    """Radices of the stages of one butterfly block, their product being ``size``.

    The prime factors in ascending order (log2 n twos for a power of two); with ``fewest`` as few radices up
    to ``largest`` as possible, and of those the smallest sum: ``stages(36, 6, fewest=True) == (6, 6)``.
    """
    if size < 1:
        raise ValueError(f"a size must be at least 1, not {size}")
    primes = _primes(size)
    if primes[-1] > largest:
        raise ValueError(
            f"{size} has the prime factor {primes[-1]}, larger than {largest}: "
            f"pad to {next_smooth(size, largest)}, or allow it with largest={primes[-1]}"
        )
    return _fewest(size, largest) if fewest else primes


def next_smooth(size: int, largest: int = LARGEST) -> int:
    """The smallest size that is at least ``size`` and has no prime factor above ``largest``."""
    if largest < 2:
        raise ValueError(f"there are no prime factors up to {largest}")
    while _primes(size)[-1] > largest:
        size += 1
    return size


def check(size: int, radices: Radices | None) -> Radices:
    """``radices``, if they make ``size``; the default stages where there are none."""
    if radices is None:
        return stages(size)
    if min(radices, default=0) < 1 or math.prod(radices) != size:
        raise ValueError(f"radices {radices} must be positive and multiply to {size}")
    return tuple(radices)


def digits(index: Tensor, radices: Radices) -> Tensor:
    """Digits ``(..., stages)`` of indices, the most significant first."""
    found = []
    for radix in reversed(radices):
        found.append(index % radix)
        index = index // radix
    return torch.stack(found[::-1], dim=-1)


def digit_reversal(radices: Radices) -> Tensor:
    """Index ``v`` of the digit reversal P, ``(P x)[i] = x[v[i]]``.

    Position i with digits d_1 .. d_q (most significant first) gets ``v[i] = d_1 + r_1 d_2 + r_1 r_2 d_3 + ...``:
    the bit reversal for a power of two. P is its own inverse where the radices read the same both ways.
    """
    order = torch.arange(math.prod(radices)).reshape(radices[::-1])
    return order.permute(*reversed(range(len(radices)))).reshape(-1)


@cache
def _primes(size: int) -> Radices:
    found, factor = [], 2
    while factor * factor <= size:
        while size % factor == 0:
            found.append(factor)
            size //= factor
        factor += 1
    return (*found, size) if size > 1 or not found else tuple(found)


@cache
def _fewest(size: int, largest: int) -> Radices:
    if size <= largest:
        return (size,)
    choices: list[Radices] = [(r, *_fewest(size // r, largest)) for r in range(2, largest + 1) if size % r == 0]
    best = min(choices, key=lambda radices: (len(radices), sum(radices)))
    return tuple(sorted(best))
