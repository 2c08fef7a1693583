"""Mixtures of the operations of DARTS: what a discrete search space is relaxed to (Liu et al. 2019)."""

from eclose.ops.mixture.operation import CONVOLUTIONS, OPERATIONS, Mixture
from eclose.ops.mixture.starts import mixture_of_conv, mixture_of_pool, mixture_of_skip

__all__ = [
    "CONVOLUTIONS",
    "OPERATIONS",
    "Mixture",
    "mixture_of_conv",
    "mixture_of_pool",
    "mixture_of_skip",
]
