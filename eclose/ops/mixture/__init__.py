"""Mixtures of the operations of DARTS: what a discrete search space is relaxed to (Liu et al. 2019)."""

from eclose.ops.mixture.geometry import Taps, Window
from eclose.ops.mixture.operation import CONVOLUTIONS, OPERATIONS, OWN, Mixture
from eclose.ops.mixture.starts import mixture_of_conv, mixture_of_pool, mixture_of_skip

__all__ = [
    "CONVOLUTIONS",
    "OPERATIONS",
    "OWN",
    "Mixture",
    "Taps",
    "Window",
    "mixture_of_conv",
    "mixture_of_pool",
    "mixture_of_skip",
]
