"""The slow truth about Kaleidoscope matrices, for tests: every stage as a matrix of its own."""

import math

import torch
from torch import Tensor

from eclose.ops.kaleidoscope import pairs
from eclose.ops.kaleidoscope.matrix import KMatrix
from eclose.ops.kaleidoscope.sizes import Radices


def by_stages(matrix: KMatrix) -> Tensor:
    """``(n, n)`` complex: the product of all stages of a matrix without batch dimensions."""
    size = matrix.size
    entries = pairs.to_complex(matrix.entries)
    product = torch.eye(size, dtype=entries.dtype)
    for block, increasing in zip(entries, matrix.orders, strict=True):
        stages = explicit_stages(block, matrix.radices)
        for stage in reversed(stages) if increasing else stages:
            product = (stage.mT if increasing else stage) @ product
    return product


def explicit_stages(block: Tensor, radices: Radices) -> list[Tensor]:  # (entries,), complex
    """The stages of a block as sparse matrices ``(n, n)``: entry by entry, by their definition."""
    size, start, found = math.prod(radices), 0, []
    stride = size
    for radix in radices:
        stride //= radix
        stage = torch.zeros(size, size, dtype=block.dtype)
        for left in range(size // (radix * stride)):
            for row in range(radix):
                for column in range(radix):
                    for right in range(stride):
                        value = block[start + ((left * radix + row) * radix + column) * stride + right]
                        position = left * radix * stride + right
                        stage[position + row * stride, position + column * stride] = value
        start += size * radix
        found.append(stage)
    return found
