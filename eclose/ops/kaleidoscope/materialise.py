"""Kaleidoscope matrices as dense ones: many at once, in few operations, never by multiplying the identity."""

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from eclose.ops.kaleidoscope import butterfly
from eclose.ops.precision import full_precision

if TYPE_CHECKING:
    from eclose.ops.kaleidoscope.matrix import KMatrix


def dense(matrices: Sequence["KMatrix"]) -> list[Tensor]:
    """Dense forms ``(*batch, n, n, 2)`` of many matrices. Real and imaginary parts lie apart in memory.

    The blocks of all matrices of equal radices are materialised together; those of equal orders are then
    multiplied together, neighbours first, so that the number of operations grows with the logarithm of the
    depth and not with the number of matrices.
    """
    # Transposed, a product that begins and ends with increasing strides is of the other order: then all are alike.
    turned = [matrix.depth > 1 and matrix.orders[0] and matrix.orders[-1] for matrix in matrices]
    matrices = [matrix.mT if turn else matrix for matrix, turn in zip(matrices, turned, strict=True)]
    alike = defaultdict(list)
    for place, matrix in enumerate(matrices):
        alike[matrix.radices, matrix.orders].append(place)
    blocks = _blocks(matrices)
    found: dict[int, Tensor] = {}
    for (_, orders), places in alike.items():
        if len(orders) == 1:  # nothing to multiply: no copy
            shares = [blocks[place].mT if orders[0] else blocks[place] for place in places]
        else:
            together = _together([blocks[place].unflatten(1, (-1, len(orders))) for place in places], dim=1)
            product = _product(together, orders)  # (2, matrices, n, n)
            shares = list(product.split([matrices[place].batch.numel() for place in places], dim=1))
        for place, share in zip(places, shares, strict=True):
            share = share.mT if turned[place] else share
            found[place] = share.reshape(2, *matrices[place].batch, *share.shape[2:]).movedim(0, -1)
    return [found[place] for place in range(len(matrices))]


def _blocks(matrices: Sequence["KMatrix"]) -> dict[int, Tensor]:
    """Of every matrix its blocks, ``(2, batch * depth, n, n)``, as they are stored."""
    alike = defaultdict(list)
    for place, matrix in enumerate(matrices):
        alike[matrix.radices].append(place)
    found: dict[int, Tensor] = {}
    for radices, places in alike.items():
        entries = [matrices[place].entries.flatten(0, -3) for place in places]
        parts = butterfly.dense(torch.stack(_together(entries).unbind(-1)), radices)
        found.update(zip(places, parts.split([len(flat) for flat in entries], dim=1), strict=True))
    return found


def _together(tensors: list[Tensor], dim: int = 0) -> Tensor:
    """Side by side; one alone is not copied."""
    return torch.cat(tensors, dim) if len(tensors) > 1 else tensors[0]


def _product(blocks: Tensor, orders: tuple[bool, ...]) -> Tensor:  # (2, matrices, depth, n, n)
    """``B_d ... B_1``, ``(2, matrices, n, n)``; blocks of increasing strides are given as their transposes."""
    # Complex numbers for once: a product is one kernel instead of four, and so are its derivatives.
    chain = torch.complex(blocks[0], blocks[1])
    odd, even = chain[:, 1::2], chain[:, ::2]  # all of one order, as are the others
    odd, even = (odd, even.mT) if orders[0] else (odd.mT, even)
    # Under autocast these small products stay in full precision: all that a network does depends on them.
    with full_precision(blocks.device.type):
        rest = []  # factors that had no neighbour, the last applied first
        while odd.shape[1]:
            count = odd.shape[1]
            if even.shape[1] > count:
                rest.append(even[:, -1])
            pair = torch.bmm(odd.flatten(0, 1), even[:, :count].flatten(0, 1)).unflatten(0, (-1, count))
            odd, even = pair[:, 1::2], pair[:, ::2]
        product = even[:, 0]
        for factor in reversed(rest):
            product = torch.bmm(factor, product)
    return torch.stack((product.real, product.imag))
