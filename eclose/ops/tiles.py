"""How large the tiles of kernels are and how many there are: triton's own functions take microseconds a call."""


def tiles_of(size: int, tile: int) -> int:
    """As many as hold ``size``."""
    return -(-size // tile)


def power_of_two(size: int) -> int:
    """The smallest that holds ``size``."""
    return 1 << (size - 1).bit_length()


def block(size: int, largest: int) -> int:
    """The same, from 16, the least that matrix units take, to ``largest``."""
    return min(largest, max(16, power_of_two(size)))
