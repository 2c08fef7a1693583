"""From derivation trees to plain, fast networks."""

from eclose.spaces.einspace.build.network import build

__all__ = ["build"]
