"""TF32 without a GPU: where torch's switches allow it, factors of products are rounded to ten binary digits."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_aten = torch.ops.aten
_MATRICES = {_aten.mm.default: 0, _aten.bmm.default: 0, _aten.addmm.default: 1, _aten.baddbmm.default: 1}
_CONVOLUTIONS = {_aten.convolution.default: 0}


def rounded(factor: Tensor) -> Tensor:
    """To the nearest number of ten binary digits behind the first."""
    if factor.dtype != torch.float32:
        return factor
    bits = factor.contiguous().view(torch.int32)
    return ((bits + 2**12) & ~(2**13 - 1)).view(torch.float32)


class TF32(TorchDispatchMode):
    """Products as a GPU computes them: the two factors are the arguments from a place on."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        first = None
        if torch.get_float32_matmul_precision() != "highest":
            first = _MATRICES.get(func)
        if torch.backends.cudnn.allow_tf32:
            first = _CONVOLUTIONS.get(func, first)
        if first is not None:
            args = [*args[:first], *map(rounded, args[first : first + 2]), *args[first + 2 :]]
        return func(*args, **(kwargs or {}))
