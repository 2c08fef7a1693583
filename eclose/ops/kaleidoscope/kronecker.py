"""Kronecker products: a Kaleidoscope matrix for every axis of a signal."""

from collections.abc import Sequence

from torch import Tensor

from eclose.ops.kaleidoscope.matrix import KMatrix


def apply_kronecker(matrices: Sequence[KMatrix], x: Tensor) -> Tensor:  # (..., n_1, .., n_N, 2)
    """``(K_1 x K_2 x .. x K_N) x``, axis by axis; the flattened signal is never multiplied.

    Batch dimensions of the matrices, where they have any, are the first of the signal.
    """
    for axis, matrix in enumerate(matrices, start=-1 - len(matrices)):
        x = matrix.apply(x.movedim(axis, -2)).movedim(-2, axis)
    return x
