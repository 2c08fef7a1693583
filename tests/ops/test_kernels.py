"""Sizes of tiles, against their definitions."""

import math

from eclose.ops.kernels import block, power_of_two, tiles_of


def test_tiles_hold_a_size_and_no_more():
    for size in range(1, 70):
        for tile in (1, 2, 3, 16, 64):
            assert tiles_of(size, tile) == math.ceil(size / tile)


def test_the_smallest_power_of_two():
    for size in range(1, 300):
        assert power_of_two(size) == min(2**power for power in range(10) if 2**power >= size)


def test_blocks_are_for_matrix_units():
    assert [block(size, 64) for size in (1, 16, 17, 33, 64, 65, 1000)] == [16, 16, 32, 64, 64, 64, 64]
    assert block(33, 32) == 32
