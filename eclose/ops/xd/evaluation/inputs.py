"""What every order of evaluation is given: the tensors of one XD-operation, in one layout."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Terms:
    """``y_i = sum_j Real(K diag(L w_ij + C_ij b) M x_j)``; ``weight`` has been multiplied by C already.

    Complex gates come as two real ones, of b and of i b, and L has the columns of i L behind its own. Pairs lie along
    the first dimension (behind the two) and frequencies in the order of the matrices. Under autocast b and the matrices
    are more precise than the rest: what is made from them alone is made before it is rounded.
    """

    x: Tensor  # (batch, c_in, *sizes)
    weight: Tensor  # (c_out, c_in / groups, *kernels)
    bias: Tensor | None  # (2, *transforms); of complex gates b and i b, (2, 2, *transforms)
    gates: Tensor | None  # (c_out, c_in / groups), or (2, c_out, c_in / groups); None: all ones
    outer: Sequence[Tensor]  # the adjoint of K of every axis, (2, transform, out)
    filters: Sequence[Tensor]  # L, (2, transform, kernel)
    inner: Sequence[Tensor]  # M, (2, transform, size)
    shifts: Sequence[Tensor] = ()  # made from these, (2, kernel, out, size) or on one axis (1, kernel, out, size)
    groups: int = 1
    mask: Tensor | None = None  # (out, size): which outputs of the last axis see which inputs

    def tensors(self) -> list[Tensor | None]:
        """All of them in a fixed order, for an autograd function."""
        return [self.x, self.weight, self.bias, self.gates, *self.outer, *self.filters, *self.inner, *self.shifts]

    def rounded(self) -> "Terms":
        """With b and the matrices in the precision of the signal."""
        dtype = self.x.dtype
        if self.inner[0].dtype == dtype:  # they are all of one precision
            return self
        bias = None if self.bias is None else self.bias.to(dtype)
        outer, filters, inner = ([m.to(dtype) for m in part] for part in (self.outer, self.filters, self.inner))
        return replace(self, bias=bias, outer=outer, filters=filters, inner=inner)

    @staticmethod
    def of(tensors: Sequence[Tensor | None], groups: int, mask: Tensor | None = None) -> "Terms":
        """From what :meth:`tensors` returned."""
        x, weight, bias, gates, *matrices = tensors
        axes = -(-len(matrices) // 4)  # three or four for each of one to three axes
        present = [matrix for matrix in matrices if matrix is not None]
        assert x is not None
        assert weight is not None
        outer, filters, inner, shifts = (present[place * axes :][:axes] for place in range(4))
        return Terms(x, weight, bias, gates, outer, filters, inner, shifts, groups, mask)


def grouped(x: Tensor, groups: int) -> Tensor:  # (batch, groups * channels, ...)
    """``(groups, batch, channels, ...)``."""
    return x.unsqueeze(0) if groups == 1 else x.unflatten(1, (groups, -1)).transpose(0, 1).contiguous()


def joined(y: Tensor) -> Tensor:  # (groups, batch, channels, ...)
    """``(batch, groups * channels, ...)``."""
    return y.squeeze(0) if len(y) == 1 else y.transpose(0, 1).flatten(1, 2)
