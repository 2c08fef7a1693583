"""The architecture parameters of an XD-operation: K, L and M of every axis, b and C."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from eclose.ops.kaleidoscope import Kaleidoscope, KMatrix, deepened, dense, dft, digit_reversal, zero
from eclose.ops.kaleidoscope.sizes import Radices
from eclose.ops.xd.geometry import Axis

Matrices = tuple[list[Tensor], list[Tensor], list[Tensor]]


class Architecture(nn.Module):
    """K, L and M start as transforms, ``F^-1 P^T``, ``P F`` and ``P F`` (P: digit reversal), b as 0 and C as 1.

    ``response`` is another start of b; L starts as zero then, and the weights of the operation do not matter yet.
    Parameters carry the marks ``architecture`` and ``no_weight_decay``; ``start`` holds them as they were made.
    """

    def __init__(
        self,
        axes: Sequence[Axis],
        channels: tuple[int, int],
        radices: Sequence[Radices],
        *,
        depth: tuple[int, int, int] = (1, 1, 1),
        bias: bool = True,
        gates: bool = True,
        response: Tensor | None = None,  # (*transforms, 2)
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if len(depth) != 3 or min(depth) < 1:
            raise ValueError(f"the depth is one number of blocks for each of K, L and M, at least 1, not {depth}")
        self.axes, self.radices, self.depth = tuple(axes), tuple(radices), tuple(depth)
        self.start_dtype = dtype or torch.get_default_dtype()
        self.convolves = response is None
        self.K, self.L, self.M = (
            nn.ModuleList(Kaleidoscope(start.size, start=start) for start in part) for part in self._starts()
        )
        grid = [axis.transform for axis in axes]
        blank = torch.zeros(*grid, 2, dtype=self.start_dtype)
        self.b = nn.Parameter(blank if response is None else response.to(blank)) if bias else None
        self.C = nn.Parameter(torch.ones(channels, dtype=self.start_dtype)) if gates else None
        for place, (axis, digits) in enumerate(zip(axes, radices, strict=True)):
            self.register_buffer(f"order{place}", digit_reversal(digits), persistent=False)
            self.register_buffer(f"columns{place}", axis.columns(), persistent=False)
            self.register_buffer(f"extension{place}", axis.extension(), persistent=False)
        self.start = {name: tensor.clone() for name, tensor in self.state_dict().items()}
        for parameter in self.parameters():
            parameter.architecture = parameter.no_weight_decay = True  # type: ignore[attr-defined]
        self._compared: tuple[object, bool] | None = None

    def matrices(self, axes: Sequence[Axis]) -> Matrices:
        """K ``(2, out, transform)``, L ``(2, transform, kernel)`` and M ``(2, transform, size)`` of every axis."""
        count = len(axes)
        square = [matrix.movedim(-1, 0) for matrix in dense([part.matrix for part in self._parts()])]
        outer = [matrix[:, axis.rows()] for matrix, axis in zip(square[:count], axes, strict=True)]
        filters, inner = [], []
        for place, axis in enumerate(axes):
            planned = axis == self.axes[place]
            columns = getattr(self, f"columns{place}") if planned else axis.columns().to(square[0].device)
            filters.append(square[count + place].index_select(2, columns))
            matrix = square[2 * count + place]
            extension = getattr(self, f"extension{place}") if planned else axis.extension()
            inner.append(matrix[..., : axis.size] if extension is None else matrix @ extension.to(matrix))
        return outer, filters, inner

    def bias(self) -> Tensor | None:
        """b in the order of the matrices, ``(2, *transforms)``."""
        if self.b is None:
            return None
        bias = self.b.movedim(-1, 0)
        for place in range(len(self.axes)):
            bias = bias.index_select(1 + place, getattr(self, f"order{place}"))
        return bias

    def frozen_at_start(self) -> bool:
        """Whether nothing here is trained and everything still is what makes a convolution."""
        parameters = list(self.parameters())
        if not self.convolves or any(parameter.requires_grad for parameter in parameters):
            return False
        if torch.compiler.is_compiling():  # traced tensors have no values to look at
            return False
        now = [(id(parameter), parameter.data_ptr(), parameter._version) for parameter in parameters]
        if self._compared is None or self._compared[0] != now:
            self._compared = now, self._at_start()
        return self._compared[1]

    @torch.no_grad()
    def _at_start(self) -> bool:
        starts = [start for part in self._starts() for start in part]
        same = all(
            torch.equal(now.entries, start.entries.to(now.entries))
            for now, start in zip(self._parts(), starts, strict=True)
        )
        return same and (self.b is None or not self.b.any()) and (self.C is None or bool((self.C == 1).all()))

    def _parts(self) -> list[Kaleidoscope]:
        return [part for part in (*self.K, *self.L, *self.M) if isinstance(part, Kaleidoscope)]

    def _starts(self) -> tuple[list[KMatrix], list[KMatrix], list[KMatrix]]:
        parts: tuple[list[KMatrix], list[KMatrix], list[KMatrix]] = ([], [], [])
        for axis, radices in zip(self.axes, self.radices, strict=True):
            forward = dft(axis.transform, radices=radices, dtype=self.start_dtype)
            back = dft(axis.transform, inverse=True, radices=radices, increasing=True, dtype=self.start_dtype)
            none = zero(axis.transform, self.depth[1], radices=radices, dtype=self.start_dtype)
            parts[0].append(deepened(back, self.depth[0]))
            # One zero factor makes L zero; a second one would keep gradients from the first.
            vanishes = not self.convolves and not parts[1]
            parts[1].append(none if vanishes else deepened(forward, self.depth[1]))
            parts[2].append(deepened(forward, self.depth[2]))
        return parts
