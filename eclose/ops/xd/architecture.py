"""The architecture parameters of an XD-operation: K, L and M of every axis, b and C."""

from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from eclose.ops.kaleidoscope import Kaleidoscope, KMatrix, dense, dft, digit_reversal, monarch, zero
from eclose.ops.kaleidoscope.sizes import Radices
from eclose.ops.kernels import traced, wrapped
from eclose.ops.xd.algebra.pairs_first import adjoint, turned
from eclose.ops.xd.axes.axis import Axis
from eclose.ops.xd.axes.fourier import FrequencyAxis, placed
from eclose.ops.xd.evaluation.batching import give
from eclose.ops.xd.evaluation.merged.factors import flat_factors
from eclose.ops.xd.evaluation.merged.order import MergedGeometry
from eclose.ops.xd.evaluation.prepare import PREPARATIONS, Matrices, Prepared, plain_matrices, with_bias_columns
from eclose.ops.xd.gates import Gates, are_complex, ones

Starts = tuple[list[KMatrix], list[KMatrix], list[KMatrix]]


class Architecture(nn.Module):
    """K, L and M start as transforms (see :func:`transforms`), b as 0 and C as 1.

    ``response`` is another start of b; L starts as zero then, and the weights of the operation do not matter yet.
    ``starts`` are other starts of K, L and M; ``unitary`` is that of :func:`transforms`. All parameters are exempt from
    the weight decay of weights; ``start`` holds them as they were made.
    """

    undecayed = ("b", "C")  # K, L and M say so themselves

    def __init__(
        self,
        axes: Sequence[Axis],
        channels: tuple[int, int],
        radices: Sequence[Radices],
        *,
        depth: tuple[int, int, int] = (1, 1, 1),
        bias: bool = True,
        gates: Gates = True,
        unitary: bool = True,
        starts: Starts | None = None,
        response: Tensor | None = None,  # (*transforms, 2)
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.axes, self.radices, self.depth = tuple(axes), tuple(radices), tuple(depth)
        self.channels = channels
        dtype = dtype or torch.get_default_dtype()
        self.convolves, self.drawn = starts is None, False
        self.K, self.L, self.M = (
            nn.ModuleList(Kaleidoscope(start.size, blocks, start=start) for start in part)
            for part, blocks in zip(starts or self._starts(dtype, unitary, response is not None), depth, strict=True)
        )
        grid = [axis.transform for axis in axes]
        blank = torch.zeros(*grid, 2, dtype=dtype)
        self.b = nn.Parameter(blank if response is None else response.to(blank)) if bias else None
        self.C = nn.Parameter(ones(channels, gates, dtype)) if gates else None
        for place, (axis, digits) in enumerate(zip(axes, radices, strict=True)):
            self.register_buffer(f"reversal{place}", digit_reversal(digits), persistent=False)
            self.register_buffer(f"columns{place}", axis.columns(), persistent=False)
            self.register_buffer(f"sources{place}", axis.sources(), persistent=False)
        self.start = {name: parameter.detach().clone() for name, parameter in self.named_parameters()}
        matrices = tuple((part.radices, part.increasing, len(part.entries)) for part in self.parts())
        self.geometry: Hashable = (self.axes, self.radices, matrices)
        self._compared: tuple[object, bool] | None = None
        self._look_again = False
        self._resized: dict[tuple[Axis, torch.device], tuple[Tensor, Tensor | None]] = {}

    def train(self, mode: bool = True) -> "Architecture":
        """See torch. Whether the start has been left is looked at anew, however parameters were written to."""
        self._look_again = True
        return super().train(mode)

    def matrices(self, axes: Sequence[Axis]) -> Matrices:
        """K ``(2, out, transform)``, L ``(2, transform, kernel)`` and M ``(2, transform, size)`` of every axis."""
        prepared: Prepared = give(self, (plain_matrices, tuple(axes), False))
        return [adjoint(matrix) for matrix in prepared.outer], prepared.filters, prepared.inner

    def prepared(self, order: str, axes: Sequence[Axis]) -> Prepared:
        """What an order of evaluation takes; of complex gates with L and i L on the last axis, and with b and i b."""
        prepared: Prepared = give(self, (PREPARATIONS[order], tuple(axes), self.complex_gates))
        return prepared

    @property
    def gates(self) -> Gates:
        """What C is: real, complex, or not there."""
        return False if self.C is None else "complex" if self.complex_gates else "real"

    @property
    def complex_gates(self) -> bool:
        """Whether C is complex."""
        return are_complex(self.C)

    def made(self, members: Sequence["Architecture"], wish: Any) -> list[Prepared]:
        """What is prepared, of operations like this one."""
        preparation, axes, doubled = wish
        if preparation is None:
            return self._factors(members, axes[0], doubled).each()
        matrices = self._matrices(members, axes, doubled)
        prepared: Prepared = preparation(matrices, lambda: _bias_columns(members, doubled))
        return prepared.each()

    def entries(self) -> list[Tensor]:
        """Of K, L and M, and b."""
        tensors: list[Tensor] = [part.entries for part in self.parts()]
        return tensors if self.b is None else [*tensors, self.b]

    def _matrices(self, members: Sequence["Architecture"], axes: Sequence[Axis], doubled: bool) -> Matrices:
        """Of all members, ``(members, 2, ...)``."""
        count = len(axes)
        stacked = zip(*(member.parts() for member in members), strict=True)
        square = [matrix.movedim(-1, 1) for matrix in dense([_stacked(parts) for parts in stacked])]
        outer = [matrix[:, :, axis.rows()] for matrix, axis in zip(square[:count], axes, strict=True)]
        filters, inner = [], []
        for place, axis in enumerate(axes):
            columns, sources = self.places(place, axis)
            taps = square[count + place].index_select(3, columns)
            filters.append(_with_turned(taps) if axis.pairs or (doubled and place == count - 1) else taps)
            matrix = square[2 * count + place]
            if sources is None:
                inner.append(matrix[..., axis.inputs()].contiguous())
            else:
                inputs = torch.arange(axis.size, device=sources.device)
                inner.append(matrix @ (sources.unsqueeze(1) == inputs).to(matrix))
        return outer, filters, inner

    def prepared_merged(self, axis: Axis) -> tuple[Prepared, MergedGeometry]:
        """Factors of K and M and columns of L, of the only axis, and what else the merged order has to know."""
        outer, _, inner = (part.matrix.orders for part in self.parts())
        geometry = MergedGeometry(axis, self.places(0, axis)[1], monarch.halves(self.radices[0]), outer, inner)
        return give(self, (None, (axis,), self.complex_gates)), geometry

    def _factors(self, members: Sequence["Architecture"], axis: Axis, doubled: bool) -> Prepared:
        """Of all members, K and M ``(members, 2, numbers)``, L, with b, ``(members, 2, transform, kernel)``."""
        outer, filters, inner = (_stacked(parts) for parts in zip(*(m.parts() for m in members), strict=True))
        columns = self.places(0, axis)[0].unsqueeze(1)
        units = filters.entries.new_zeros(axis.kernel, axis.transform).scatter_(1, columns, 1)
        signals = torch.stack([units, torch.zeros_like(units)], dim=-1).expand(len(members), -1, -1, -1)
        taps = monarch.apply(filters.entries, filters.radices, filters.orders, signals)  # (members, kernel, n, 2)
        taps = taps.permute(0, 3, 2, 1)
        joint = with_bias_columns(
            _with_turned(taps) if doubled else taps, _bias_columns(members, doubled), aligned=False
        )
        return Prepared([flat_factors(outer)], [joint], [flat_factors(inner)], joint=True)

    def places(self, place: int, axis: Axis) -> tuple[Tensor, Tensor | None]:
        """Columns of L and sources of the signal, of an axis that may have been resized."""
        if axis == self.axes[place]:
            return getattr(self, f"columns{place}"), getattr(self, f"sources{place}")
        device = getattr(self, f"columns{place}").device
        if (axis, device) not in self._resized:
            columns, sources = axis.columns(), axis.sources()
            self._resized[axis, device] = columns.to(device), None if sources is None else sources.to(device)
        return self._resized[axis, device]

    def bias(self) -> Tensor | None:
        """b in the order of the matrices, ``(2, *transforms)``."""
        return None if self.b is None else self.digit_reversed(self.b.movedim(-1, 0))

    def digit_reversed(self, spectrum: Tensor) -> Tensor:  # (..., *transforms)
        """From the natural order of frequencies to that of the matrices."""
        for place in range(len(self.axes)):
            spectrum = spectrum.index_select(place - len(self.axes), getattr(self, f"reversal{place}"))
        return spectrum

    def frozen_at_start(self) -> bool:
        """Whether nothing here is trained and everything still is what makes a convolution."""
        tensors = self.entries() if self.C is None else [*self.entries(), self.C]
        return not any(tensor.requires_grad for tensor in tensors) and self.at_start()

    def at_start(self) -> bool:
        """Whether everything still is what makes a convolution."""
        parameters = list(self.parameters())
        # Traced tensors, and those of transforms, have no values to look at; replicas (DataParallel) no parameters.
        if not self.convolves or not parameters or traced() or any(map(wrapped, parameters)):
            return False
        now = [(id(parameter), parameter.data_ptr(), parameter._version) for parameter in parameters]
        again = self._look_again and not _capturing(parameters[0])
        if self._compared is None or self._compared[0] != now or again:
            self._compared, self._look_again = (now, self._equals_start()), False
        return self._compared[1]

    @torch.no_grad()
    def _equals_start(self) -> bool:
        return all(torch.equal(now, self.start[name].to(now)) for name, now in self.named_parameters())

    def parts(self) -> list[Kaleidoscope]:
        """K of every axis, L of every axis, M of every axis."""
        matrices: Sequence[Any] = (*self.K, *self.L, *self.M)
        return list(matrices)

    def _starts(self, dtype: torch.dtype, unitary: bool, vanishing: bool) -> Starts:
        outer, filters, inner = transforms(self.axes, self.radices, dtype, unitary=unitary)
        if vanishing:
            # One zero factor makes L zero; a second one would keep gradients from the first.
            filters[0] = zero(self.axes[0].transform, self.depth[1], radices=self.radices[0], dtype=dtype)
        return outer, filters, inner


def _capturing(parameter: Tensor) -> bool:
    """Whether a CUDA graph is being made: values cannot be looked at."""
    return parameter.is_cuda and torch.cuda.is_current_stream_capturing()


def _bias_columns(members: Sequence[Architecture], doubled: bool) -> Tensor | None:
    """b of all of them, or b and i b, in the order of the matrices, ``(members, 2, *transforms, 1 or 2)``."""
    biases: list[Tensor] = [member.b for member in members if member.b is not None]
    if not biases:
        return None
    parts = torch.stack(biases).unbind(-1)  # and stacked again: derivatives of all members lie as b does
    columns = members[0].digit_reversed(torch.stack(parts, dim=1)).unsqueeze(-1)
    return _with_turned(columns) if doubled else columns


def _stacked(parts: Sequence[Kaleidoscope]) -> KMatrix:
    """Matrices alike, as one with a batch."""
    return KMatrix(torch.stack([part.entries for part in parts]), parts[0].radices, parts[0].increasing)


def _with_turned(columns: Tensor) -> Tensor:  # (members, 2, ..., columns)
    """z, and then ``i z``."""
    return torch.cat([columns, turned(columns.movedim(1, 0)).movedim(0, 1)], dim=-1)


def transforms(axes: Sequence[Axis], radices: Sequence[Radices], dtype: torch.dtype, *, unitary: bool = True) -> Starts:
    """K, L and M of every axis, of depth 1, as convolutions (in space or of frequencies) have them.

    ``F^-1 P^T sqrt(n)``, ``P F`` and ``P F / sqrt(n)`` with the digit reversal P. Every stage of K and of M is unitary:
    a step of one size then changes both, and every stage of them, alike. Not ``unitary``: ``F^-1 P^T`` and ``P F``, as
    earlier versions had it.
    """
    sizes = [(axis.transform, digits) for axis, digits in zip(axes, radices, strict=True)]
    outer = [
        dft(size, inverse=True, normalised=unitary, radices=digits, increasing=True, dtype=dtype)
        for size, digits in sizes
    ]
    inner = [dft(size, normalised=unitary, radices=digits, dtype=dtype) for size, digits in sizes]
    filters = [
        placed(axis, digits, dtype)
        if isinstance(axis, FrequencyAxis)
        else dft(axis.transform, radices=digits, dtype=dtype)
        for axis, digits in zip(axes, radices, strict=True)
    ]
    return outer, filters, inner
