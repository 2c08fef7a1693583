"""Kaleidoscope matrices as dense ones: many at once, in few operations, never by multiplying the identity."""

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from eclose.ops.kaleidoscope import butterfly
from eclose.ops.kaleidoscope.join import Parts
from eclose.ops.precision import full_precision

if TYPE_CHECKING:
    from eclose.ops.kaleidoscope.matrix import KMatrix


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
        counts = [matrices[place].batch.numel() for place in places]
        real, imaginary = (
            _together([blocks[place][part].unflatten(0, (-1, len(orders))) for place in places]) for part in range(2)
        )
        product = torch.stack(_product((real, imaginary), orders)).movedim(0, -1)  # (matrices, n, n, 2)
        for place, share in zip(places, product.split(counts), strict=True):
            found[place] = share.reshape(*matrices[place].batch, *share.shape[1:])
    return [found[place] for place in range(len(matrices))]


def _blocks(matrices: Sequence["KMatrix"]) -> dict[int, Parts]:
    """Of every matrix its blocks, two parts ``(batch * depth, n, n)``, as they are stored."""
    alike = defaultdict(list)
    for place, matrix in enumerate(matrices):
        alike[matrix.radices].append(place)
    found: dict[int, Parts] = {}
    for radices, places in alike.items():
        entries = [matrices[place].entries.flatten(0, -3) for place in places]
        parts = butterfly.dense(_together(entries), radices)
        counts = [len(flat) for flat in entries]
        shares = zip(parts[0].split(counts), parts[1].split(counts), strict=True)
        found.update(zip(places, shares, strict=True))
    return found


def _together(tensors: list[Tensor]) -> Tensor:
    """Along the first axis; one alone is not copied."""
    return torch.cat(tensors) if len(tensors) > 1 else tensors[0]


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
