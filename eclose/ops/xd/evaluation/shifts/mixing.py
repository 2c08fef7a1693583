"""The product over channels and taps of the orders that use shift tensors, and its derivatives."""

import torch
from torch import Tensor

from eclose.ops.xd.algebra.pairs_first import contracted


def mixed(matrix: Tensor, columns: Tensor) -> Tensor:  # (groups, rows, inner), (parts, groups, inner, columns)
    """``(parts, groups, rows, columns)``."""
    repeated = matrix.expand(columns.shape[0], -1, -1, -1).flatten(0, 1)
    return torch.bmm(repeated, columns.flatten(0, 1)).unflatten(0, columns.shape[:2])


def by_matrix(cotangent: Tensor, columns: Tensor) -> Tensor:  # (parts, groups, rows or inner, columns)
    """``(groups, rows, inner)``."""
    parts, groups = columns.shape[:2]
    if groups == 1 and parts <= 2:  # long columns
        terms = [contracted(y[0], z[0].mT) for y, z in zip(cotangent, columns, strict=True)]
        return sum(terms[1:], terms[0]).unsqueeze(0)
    product = torch.bmm(cotangent.flatten(0, 1), columns.flatten(0, 1).mT)
    return product.unflatten(0, (parts, groups)).sum(0)


def by_group(z: Tensor, groups: int, channels: int, columns: int) -> Tensor:  # (parts, taps * channels, ...)
    """``(parts, groups, taps * channels / groups * .., columns)``: taps of a group side by side."""
    z = z.view(len(z), z.shape[1] // channels, groups, -1)
    return z.transpose(1, 2).reshape(len(z), groups, -1, columns)


def ungrouped(z: Tensor, taps: int) -> Tensor:  # (parts, groups, taps * .., columns)
    """``(parts, taps, groups, -1)``: the way back."""
    return z.view(*z.shape[:2], taps, -1).transpose(1, 2).contiguous()
