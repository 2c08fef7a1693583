"""Kaleidoscope matrices as dense ones: many at once, in few operations, never by multiplying the identity."""

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from eclose.ops.kaleidoscope import butterfly, pairs

if TYPE_CHECKING:
    from eclose.ops.kaleidoscope.matrix import KMatrix


def dense(matrices: Sequence["KMatrix"]) -> list[Tensor]:
    """Dense forms ``(*batch, n, n, 2)`` of many matrices.

    The blocks of all matrices of equal radices are materialised together; those of equal orders are then
    multiplied together, neighbours first, so that the number of operations grows with the logarithm of the
    depth and not with the number of matrices.
    """
    alike = defaultdict(list)
    for place, matrix in enumerate(matrices):
        alike[matrix.radices].append(place)
    found: dict[int, Tensor] = {}
    for radices, places in alike.items():
        flat = [matrices[place].entries.flatten(0, -3) for place in places]
        blocks = butterfly.dense(torch.cat(flat), radices).split([len(part) for part in flat])
        same = defaultdict(list)
        for place, part in zip(places, blocks, strict=True):
            same[matrices[place].orders].append((place, part.unflatten(0, (-1, matrices[place].depth))))
        for orders, members in same.items():
            for group in [members] if len(orders) > 1 else [[member] for member in members]:
                product = _product([part for _, part in group], orders)
                shares = product.split([len(part) for _, part in group])
                for (place, _), share in zip(group, shares, strict=True):
                    found[place] = share.reshape(*matrices[place].batch, *share.shape[1:])
    return [found[place] for place in range(len(matrices))]


def _product(parts: list[Tensor], orders: tuple[bool, ...]) -> Tensor:  # each (matrices, depth, n, n, 2)
    """``B_d ... B_1``, ``(matrices, n, n, 2)``; blocks of increasing strides are given as their transposes."""
    blocks = torch.cat(parts) if len(parts) > 1 else parts[0]
    even, odd = blocks[:, ::2], blocks[:, 1::2]  # all of one order, all of the other
    even, odd = (even.transpose(-3, -2), odd) if orders[0] else (even, odd.transpose(-3, -2))
    # Under autocast these small products stay in full precision: all that a network does depends on them.
    with torch.autocast(blocks.device.type, enabled=False):
        while odd.shape[1]:
            product = pairs.matmul(odd, even[:, : odd.shape[1]])
            if even.shape[1] > odd.shape[1]:
                product = torch.cat([product, even[:, -1:]], dim=1)
            even, odd = product[:, ::2], product[:, 1::2]
    return even[:, 0]
