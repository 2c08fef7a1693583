"""Sparse matrices with at most n nonzero entries in six blocks, for any radices.

With the entries in the order of their columns, and the strides of the blocks increasing and decreasing in turns:

1. *compress*: the columns in use move to 0, 1, .. in their order. Two columns on one wire after the digits of
   stride below s would differ by less than s, but their places by s or more: no conflict.
2. *copy*: position c(t) goes to t, the number of the entry; c is monotone and onto. Places that agree in digits of
   stride from s on differ by less than s, and so do their sources, which must then be one: no conflict.
   Here the values come in.
3. and 4. A permutation from the order of columns to the order of rows.
5. *sum*: the transpose of copy, for rows.
6. *expand*: the transpose of compress, for rows.
"""

import torch
from torch import Tensor

from eclose.ops.kaleidoscope import pairs
from eclose.ops.kaleidoscope.benes import permutation, routes
from eclose.ops.kaleidoscope.diagonal import diagonal_left
from eclose.ops.kaleidoscope.matrix import KMatrix
from eclose.ops.kaleidoscope.sizes import Radices, check


def sparse(
    size: int,
    rows: Tensor,
    columns: Tensor,
    values: Tensor,
    *,
    radices: Radices | None = None,
    dtype: torch.dtype | None = None,
) -> KMatrix:  # (entries,), (entries,), (entries, 2)
    """Depth 6, strides of the first block increasing: ``K[rows[t], columns[t]] = values[t]``, zero elsewhere.

    Values are pairs; entries at the same place add up. More than n entries are refused: add up several such
    matrices, or embed the matrix in a larger one.
    """
    radices = check(size, radices)
    count = len(rows)
    if count > size:
        raise ValueError(f"{count} entries given; six blocks of size {size} hold at most {size}")
    if count and not 0 <= int(min(rows.min(), columns.min())) <= int(max(rows.max(), columns.max())) < size:
        raise ValueError(f"rows and columns must lie in 0 to {size - 1}")
    dtype = dtype or torch.get_default_dtype()
    rows, columns, values = rows.cpu(), columns.cpu(), values.cpu()
    by_column = torch.argsort(columns, stable=True)
    rows, columns, values = rows[by_column], columns[by_column], values[by_column].to(dtype)
    by_row = torch.argsort(rows, stable=True)
    used_columns, copies = torch.unique(columns, return_inverse=True)
    used_rows, sums = torch.unique(rows[by_row], return_inverse=True)

    compress = KMatrix(_expand(used_columns, radices, dtype), radices, increasing=True)
    copy = KMatrix(_copy(copies, radices, dtype), radices)
    weights = torch.cat([values, values.new_zeros(size - count, 2)])
    order = torch.cat([by_row, torch.arange(count, size)])
    shuffle = permutation(order, radices=radices, increasing=True, dtype=dtype)
    add = KMatrix(_copy(sums, radices, dtype), radices, increasing=True)
    expand = KMatrix(_expand(used_rows, radices, dtype), radices)
    return expand @ add @ shuffle @ diagonal_left(weights, copy) @ compress


def sparse_from_dense(matrix: Tensor, *, radices: Radices | None = None, dtype: torch.dtype | None = None) -> KMatrix:
    """Depth 6: a real or complex matrix ``(n, n)`` with at most n nonzero entries."""
    rows, columns = matrix.nonzero(as_tuple=True)
    return sparse(len(matrix), rows, columns, pairs.from_complex(matrix[rows, columns]), radices=radices, dtype=dtype)


def _expand(used: Tensor, radices: Radices, dtype: torch.dtype) -> Tensor:
    """Entries of the block ``j -> used[j]``; its transpose compresses."""
    return routes(torch.arange(len(used)), used, radices).to(dtype).unsqueeze(0)


def _copy(sources: Tensor, radices: Radices, dtype: torch.dtype) -> Tensor:
    """Entries of the block ``sources[t] -> t``; its transpose adds."""
    return routes(sources, torch.arange(len(sources)), radices).to(dtype).unsqueeze(0)
