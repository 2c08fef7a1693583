"""From which matrices an XD-operation starts that is a graph convolution (Claim A.5).

``Conv_1`` after ``G``: with K the identity, M = G and one tap at place 0, where L has ones, output p is
``w (G x)_p``. G is the (normalised) adjacency matrix of a graph, or any other real matrix; six blocks hold as many
entries as the transform is large.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from eclose.ops.kaleidoscope import identity, pairs, sparse
from eclose.ops.kaleidoscope.sizes import Radices, next_smooth
from eclose.ops.xd.architecture import Starts, transforms
from eclose.ops.xd.axes.axis import Axis, NodeAxis
from eclose.ops.xd.options import Options
from eclose.ops.xd.starts.start import Start, architecture_of, matrix_dtype

SPARSE_DEPTH = 6
"""Depth of a sparse matrix."""


def graph_start(conv: nn.Conv1d, matrix: Tensor, options: Options) -> Start:  # (nodes, nodes)
    """``conv(x G^T)``."""
    if not isinstance(conv, nn.Conv1d) or (*conv.kernel_size, *conv.stride, conv.padding) != (1, 1, (0,)):
        raise ValueError(f"a graph convolution has a Conv1d of one tap without stride and padding, not {conv}")
    if matrix.dim() != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.is_floating_point():
        raise ValueError(f"a matrix of real numbers (nodes, nodes) is needed, not {matrix.dtype} {tuple(matrix.shape)}")
    nodes = len(matrix)
    transform = next_smooth(max(nodes, int(matrix.count_nonzero())), options.factor)
    axes, radices = [NodeAxis(nodes, 1, transform)], [options.radices(transform)]
    first, second, third = options.depth
    options = replace(options, depth=(first, second, max(third, SPARSE_DEPTH)))
    starts = _starts(matrix, axes, radices, matrix_dtype(conv.weight))
    architecture = architecture_of(conv.weight, axes, options, radices=radices, starts=starts)
    return Start(conv.weight, axes, architecture, conv.bias, conv.groups, layer=conv)


def _starts(matrix: Tensor, axes: Sequence[Axis], radices: Sequence[Radices], dtype: torch.dtype) -> Starts:
    size, digits = axes[0].transform, radices[0]
    _, filters, _ = transforms(axes, radices, dtype)
    rows, columns = matrix.nonzero(as_tuple=True)
    entries = pairs.from_complex(matrix[rows, columns])
    inner = sparse(size, rows, columns, entries, radices=digits, dtype=dtype)
    return [identity(size, radices=digits, increasing=True, dtype=dtype)], filters, [inner]
