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

Parts = tuple[Tensor, Tensor]


def dense(matrices: Sequence["KMatrix"]) -> list[Tensor]:
    """Dense forms ``(*batch, n, n, 2)`` of many matrices. Real and imaginary parts lie apart in memory.

    The blocks of all matrices of equal radices are materialised together; those of equal orders are then
    multiplied together, neighbours first, so that the number of operations grows with the logarithm of the
    depth and not with the number of matrices.
    """
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
            product = torch.stack(_product((together[0], together[1]), orders))  # (2, matrices, n, n)
            shares = list(product.split([matrices[place].batch.numel() for place in places], dim=1))
        for place, share in zip(places, shares, strict=True):
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


def _product(blocks: Parts, orders: tuple[bool, ...]) -> Parts:  # (matrices, depth, n, n)
    """``B_d ... B_1``, ``(matrices, n, n)``; blocks of increasing strides are given as their transposes."""
    odd = (blocks[0][:, 1::2], blocks[1][:, 1::2])  # all of one order, as are the others
    even = (blocks[0][:, ::2], blocks[1][:, ::2])
    if orders[0]:
        even = (even[0].mT, even[1].mT)
    else:
        odd = (odd[0].mT, odd[1].mT)
    # Under autocast these small products stay in full precision: all that a network does depends on them.
    with full_precision(blocks[0].device.type):
        while odd[0].shape[1]:
            count = odd[0].shape[1]
            pair = _matmul(odd, (even[0][:, :count], even[1][:, :count]))
            if even[0].shape[1] > count:
                pair = (torch.cat([pair[0], even[0][:, -1:]], dim=1), torch.cat([pair[1], even[1][:, -1:]], dim=1))
            odd = (pair[0][:, 1::2], pair[1][:, 1::2])
            even = (pair[0][:, ::2], pair[1][:, ::2])
    return even[0][:, 0], even[1][:, 0]


def _matmul(x: Parts, y: Parts) -> Parts:  # (matrices, count, n, n)
    """``x y`` by four batched products."""
    shape = x[0].shape[:2]
    a, b = (part.flatten(0, 1) for part in x)
    c, d = (part.flatten(0, 1) for part in y)
    real = torch.baddbmm(torch.bmm(a, c), b, d, alpha=-1)
    imaginary = torch.baddbmm(torch.bmm(a, d), b, c)
    return real.unflatten(0, shape), imaginary.unflatten(0, shape)
