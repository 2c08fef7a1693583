"""How far apart two outputs of a network are: tensors, or any nesting of them."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor


def difference(ours: Any, theirs: Any, precision: float) -> str:
    """In words, or nothing where it is rounding in computations of this ``precision`` (the step from 1 on)."""
    pairs = list(tensors_in(ours)), list(tensors_in(theirs))
    if len(pairs[0]) != len(pairs[1]):
        return f"{len(pairs[0])} tensors in place of {len(pairs[1])}"
    return next(filter(None, (_difference(*pair, precision) for pair in zip(*pairs, strict=True))), "")


def precision_of(dtype: torch.dtype, device: torch.device) -> float:
    """The step from 1 on of what is computed with."""
    if torch.is_autocast_enabled(device.type):
        dtype = torch.get_autocast_dtype(device.type)
    tf32 = device.type == "cuda" and dtype == torch.float32  # convolutions may round to it
    return 2**-10 if tf32 else torch.finfo(dtype).eps


def _difference(ours: Tensor, theirs: Tensor, precision: float) -> str:
    if ours.shape != theirs.shape:
        return f"an output of shape {tuple(ours.shape)} in place of {tuple(theirs.shape)}"
    if not (theirs.is_floating_point() or theirs.is_complex()) or not theirs.numel():
        return ""  # classes may change by rounding
    precision = max(precision, torch.finfo(theirs.dtype).eps)
    dtype = torch.promote_types(theirs.dtype, torch.float32)
    ours, theirs = ours.to(dtype), theirs.to(dtype)
    same = (ours == theirs) | (ours.isnan() & theirs.isnan())  # infinities too
    furthest = (ours - theirs).abs().masked_fill(same, 0).max().item()
    largest = theirs.abs().nan_to_num(0, 0, 0).max().item()
    # Half of all digits: networks amplify rounding. A nan that is in one of them only is far apart.
    if furthest <= precision**0.5 * (1 + largest):
        return ""
    return f"an output that is up to {furthest:.2g} away, of values up to {largest:.2g}"


def tensors_in(output: Any) -> Iterator[Tensor]:
    """All dense tensors of an output."""
    if isinstance(output, Tensor):
        if output.layout == torch.strided:  # others have no maxima
            yield output
    elif isinstance(output, Mapping | list | tuple):
        for part in output.values() if isinstance(output, Mapping) else output:
            yield from tensors_in(part)
