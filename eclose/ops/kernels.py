"""Kernels written for a GPU: where they can take the place of operations of torch, and how large their tiles are."""

from importlib.util import find_spec

import torch
from torch import Tensor

_TRITON = find_spec("triton") is not None


def served(*tensors: Tensor, double: bool = False) -> bool:
    """On the GPU in use where triton came with torch, without derivatives, and for real: not while a program is traced.

    ``double``: kernels that are not for the matrix units serve that precision too.
    """
    if not _TRITON or not tensors[0].is_cuda or torch.is_grad_enabled() or traced():
        return False
    here = torch.cuda.current_device()
    return all(x.get_device() == here and (double or x.dtype != torch.float64) and not wrapped(x) for x in tensors)


def traced() -> bool:
    """Whether a program is being made of what runs, for inputs to come."""
    return torch.compiler.is_compiling() or torch.jit.is_tracing()  # type: ignore[attr-defined]


def wrapped(x: Tensor) -> bool:
    """Whether a transform of ``torch.func`` has put something in place of the tensor, which has no memory then."""
    found: bool = torch._C._functorch.is_functorch_wrapped_tensor(x)
    return found


def tiles_of(size: int, tile: int) -> int:
    """As many as hold ``size``."""
    return -(-size // tile)


def power_of_two(size: int) -> int:
    """The smallest that holds ``size``."""
    return 1 << (size - 1).bit_length()


def block(size: int, largest: int) -> int:
    """The same, from 16, the least that matrix units take, to ``largest``."""
    return min(largest, max(16, power_of_two(size)))
