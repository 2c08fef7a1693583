"""Random numbers that follow from names: the same parts give the same seed, in any process, at any time.

Nothing random is carried from one step to the next, so a training that goes on from a checkpoint draws what
the uninterrupted one would have drawn.
"""

import contextlib
import hashlib

import torch


def seed_for(*parts: int | str) -> int:
    """A 63-bit seed that depends on every part."""
    text = "/".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def reseed(device: torch.device, *parts: int | str) -> None:
    """Seed the generators that layers on ``device`` draw from.

    ``torch.manual_seed`` does more: it formats a stack trace for every kind of device that is not there,
    half a millisecond in all, which a small network's step would notice.
    """
    seed = seed_for(*parts)
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)


def own_numbers(device: torch.device) -> contextlib.AbstractContextManager[None]:
    """A block after which layers on ``device`` draw as if it had not been."""
    return torch.random.fork_rng([device.index or 0] if device.type == "cuda" else [])


def generator_for(*parts: int | str) -> torch.Generator:
    """A CPU generator seeded by :func:`seed_for`."""
    return torch.Generator().manual_seed(seed_for(*parts))
