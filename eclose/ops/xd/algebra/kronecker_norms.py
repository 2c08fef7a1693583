"""Norms of Kronecker products, and of their differences, from the factors: the products are never formed."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def norm(factors: Sequence[Tensor], *, real: bool = False) -> float:
    """``||A_1 x .. x A_N||`` of complex tensors, or that of its real part."""
    return distance(factors, [torch.zeros_like(factor) for factor in factors], real=real)


def distance(one: Sequence[Tensor], other: Sequence[Tensor], *, real: bool = False) -> float:
    """``||A_1 x .. x A_N - B_1 x .. x B_N||`` of complex tensors, or that of its real part.

    The difference is a sum over the axes of ``B_1 x .. x (A_a - B_a) x .. x A_N``, so that what is nearly the
    same does not cancel. ``||Real X||^2`` is half of ``||X||^2 + Real sum X^2``.
    """
    square = _square(one, other, conjugate=True)
    if real:
        square = (square + _square(one, other, conjugate=False)) / 2
    return math.sqrt(max(0.0, square))


def _square(one: Sequence[Tensor], other: Sequence[Tensor], *, conjugate: bool) -> float:
    axes = len(one)
    # Of every axis the products of B, A - B and A with each other.
    grams = [_gram([b, a - b, a], conjugate) for a, b in zip(one, other, strict=True)]
    kinds = [[0 if place < term else 1 if place == term else 2 for place in range(axes)] for term in range(axes)]
    total = 0j
    for row in kinds:
        for column in kinds:
            total += math.prod(complex(g[i, j]) for g, i, j in zip(grams, row, column, strict=True))
    return total.real


def _gram(tensors: Sequence[Tensor], conjugate: bool) -> Tensor:
    product = torch.vdot if conjugate else torch.dot
    flat = [tensor.flatten() for tensor in tensors]
    return torch.stack([torch.stack([product(x, y) for y in flat]) for x in flat])
