"""Signals filtered at every frequency by kernels of our own, against double precision."""

import pytest
import torch

from eclose.ops.xd.algebra.pairs_first import analysis
from eclose.ops.xd.evaluation.frequency import FilterNeeds, filtered, filtered_gradients


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("needs", [FilterNeeds(True, True, True, True), FilterNeeds(True, True, False, False)])
@pytest.mark.parametrize("kept", [False, True])
def test_filtered_signals_by_kernels(needs, kept):
    """Three products at once where all derivatives are needed, else one after the other."""
    generator = torch.Generator("cuda").manual_seed(0)
    shapes = [(2, 9, 6, 8), (2, 11, 2, 5, 6), (2, 11, 7), (2, 11, 8), (2, 9, 5, 7)]
    x, response, outer, inner, cotangent = (torch.randn(one, device="cuda", generator=generator) for one in shapes)
    inputs = [tensor.double().requires_grad_() for tensor in (x, response, outer, inner)]
    y = filtered(*inputs[:2], inputs[2:3], inputs[3:])
    expected = torch.autograd.grad(y, inputs, cotangent.double())
    with torch.no_grad():
        spectrum = analysis(x, [inner])[-1] if kept else None
        found = filtered_gradients(x, response, [outer], [inner], cotangent, needs, spectrum)
    parts = [found.x, found.response, *(found.outer or [None]), *(found.inner or [None])]
    for one, other, here in zip(parts, expected, (True, True, needs.outer, needs.inner), strict=True):
        assert (one is not None) == here
        if one is not None:
            assert one.shape == other.shape
            assert (one - other).norm() < 1e-5 * other.norm()
