"""Modules alike, each with an input of its own, as one: values, gradients and running statistics of one by one."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

from eclose.ops.alike import run
from eclose.ops.attention import ChannelAttention, SpatialAttention
from eclose.ops.dynamic import DynamicKernel

CASES: dict[str, Callable[[int, bool], nn.Module]] = {
    "channels": lambda axes, affine: ChannelAttention(16, 5, axes),
    "points": lambda axes, affine: SpatialAttention(16, (1,) * axes, affine=affine),
    "points, shorter": lambda axes, affine: SpatialAttention(32, (2,) * axes, affine=affine),
    "kernels": lambda axes, affine: DynamicKernel(16, 5, 3, axes, affine=affine),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize(("training", "affine"), [(True, False), (False, False), (True, True)])
def test_together_as_one_by_one(name: str, axes: int, training: bool, affine: bool) -> None:
    torch.manual_seed(0)
    modules = nn.ModuleList(CASES[name](axes, affine) for _ in range(3)).double().train(training)
    for buffer in modules.buffers():
        if buffer.is_floating_point():
            buffer.uniform_(0.5, 2)
    others = copy.deepcopy(modules)
    channels = 32 if name == "points, shorter" else 16
    x = torch.randn(2, 3, channels, *(5, 4, 3)[:axes], dtype=torch.float64, requires_grad=True)
    (ours,) = run([list(modules)], x)
    theirs = torch.stack([module(own) for module, own in zip(others, x.unbind(1), strict=True)], dim=1)
    torch.testing.assert_close(ours, theirs)
    along = torch.randn_like(ours)
    found = torch.autograd.grad(ours, [x, *modules.parameters()], along)
    wanted = torch.autograd.grad(theirs, [x, *others.parameters()], along)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)
    for one, other in zip(modules.buffers(), others.buffers(), strict=True):
        if one.is_floating_point():
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("stride", [1, 2])
def test_several_sorts_share_one_product(stride: int) -> None:
    """In any order, with one that knows nothing of it; a stride is that of the norm, too."""
    torch.manual_seed(0)
    sorts = [
        [nn.Conv1d(16, 3, 1) for _ in range(2)],
        [DynamicKernel(16, 4, 5, 1, affine=False) for _ in range(2)],
        [SpatialAttention(16, (stride,), affine=False) for _ in range(2)],
        [ChannelAttention(16, 4, 1) for _ in range(2)],
        [DynamicKernel(16, 4, 3, 1, affine=False) for _ in range(2)],
    ]
    others, x = copy.deepcopy(sorts), torch.randn(3, 2, 16, 7)
    for ours, sort in zip(run(sorts, x), others, strict=True):
        theirs = torch.stack([module(own) for module, own in zip(sort, x.unbind(1), strict=True)], dim=1)
        torch.testing.assert_close(ours, theirs)
    for sort, other in zip(sorts, others, strict=True):
        for one, two in zip(nn.ModuleList(sort).buffers(), nn.ModuleList(other).buffers(), strict=True):
            torch.testing.assert_close(one, two) if one.is_floating_point() else None
