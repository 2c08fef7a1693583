"""The simplest Kaleidoscope matrices: identity, zero, random ones; more depth; many in a batch."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from eclose.ops.kaleidoscope import butterfly, pairs
from eclose.ops.kaleidoscope.diagonal import diagonal_left
from eclose.ops.kaleidoscope.matrix import KMatrix
from eclose.ops.kaleidoscope.sizes import Radices, check


def identity(
    size: int,
    depth: int = 1,
    *,
    radices: Radices | None = None,
    increasing: bool = False,
    dtype: torch.dtype | None = None,
) -> KMatrix:
    """The identity: every small matrix is one."""
    radices = check(size, radices)
    block = butterfly.identity(radices).to(dtype or torch.get_default_dtype())
    return KMatrix(block.repeat(depth, 1, 1), radices, increasing)


def zero(
    size: int,
    depth: int = 1,
    *,
    radices: Radices | None = None,
    increasing: bool = False,
    dtype: torch.dtype | None = None,
) -> KMatrix:
    """The zero matrix: identity but for the stage applied last, so that a gradient reaches that stage."""
    one = identity(size, depth, radices=radices, increasing=increasing, dtype=dtype)
    return diagonal_left(one.entries.new_zeros(size, 2), one)


def unitary(
    size: int,
    depth: int = 1,
    *,
    batch: Sequence[int] = (),
    radices: Radices | None = None,
    increasing: bool = False,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
) -> KMatrix:
    """A random unitary matrix: every small matrix is drawn by Haar's measure of U(r)."""
    radices = check(size, radices)
    entries = torch.empty(*batch, depth, butterfly.entries_of(radices), 2, dtype=torch.float64)
    for stage in butterfly.views(entries.movedim(-1, 0), radices):
        left, radix, _, right = stage.shape[-4:]
        shape = (*batch, depth, left, right, radix, radix, 2)
        q, r = torch.linalg.qr(torch.view_as_complex(torch.randn(shape, generator=generator, dtype=torch.float64)))
        q = q * torch.sgn(r.diagonal(dim1=-2, dim2=-1)).unsqueeze(-2)  # QR alone is not uniform
        stage.copy_(torch.stack([q.real, q.imag]).movedim(-3, -1))
    return KMatrix(entries.to(dtype or torch.get_default_dtype()), radices, increasing)


def deepened(matrix: KMatrix, depth: int) -> KMatrix:
    """The same matrix with identity blocks behind it, ``depth`` blocks in all."""
    more = depth - matrix.depth
    if more < 0:
        raise ValueError(f"a matrix of depth {matrix.depth} cannot be given depth {depth}")
    block = butterfly.identity(matrix.radices, matrix.entries).expand(*matrix.batch, more, -1, -1)
    return replace(matrix, entries=torch.cat([matrix.entries, block], dim=-3))


def stacked(matrices: Sequence[KMatrix]) -> KMatrix:
    """Matrices of equal radices, depth and orders as one with a new first batch dimension."""
    kinds = {(m.radices, m.orders, m.batch) for m in matrices}
    if len(kinds) != 1:
        raise ValueError(f"only matrices alike in radices, orders and batch can be stacked, not {sorted(kinds)}")
    return replace(matrices[0], entries=torch.stack([m.entries for m in matrices]))


def from_stages(stages: Sequence[torch.Tensor], *, increasing: bool = False) -> KMatrix:  # each (left, out, in, right)
    """A matrix of depth 1 from its stages, real or complex, numbered as in :mod:`eclose.ops.kaleidoscope.butterfly`."""
    entries = torch.cat([pairs.from_complex(stage).flatten(0, -2) for stage in stages])
    return KMatrix(entries.unsqueeze(0), tuple(stage.shape[1] for stage in stages), increasing)
