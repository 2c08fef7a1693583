"""Where kernels written for a GPU can take the place of operations of torch."""

from importlib.util import find_spec

import torch
from torch import Tensor

_TRITON = find_spec("triton") is not None


def served(x: Tensor, *, double: bool = False) -> bool:
    """On a GPU where triton came with torch, without derivatives, and for real: not while a program is traced.

    ``double``: kernels that are not for the matrix units serve that precision too.
    """
    if torch.is_grad_enabled() or torch.compiler.is_compiling() or not _TRITON:
        return False
    wrapped: bool = torch._C._functorch.is_functorch_wrapped_tensor(x)  # by torch.func
    return x.is_cuda and (double or x.dtype != torch.float64) and not wrapped
