"""Half precision has a small range: signals that a convolution takes, an operation takes too."""

import pytest
import torch
from torch import nn

from eclose.ops.xd import XD

LARGE = {
    "1d": (lambda: nn.Conv1d(2, 2, 3, padding=1), (512,), ["frequency", "merged", "sandwich", "im2col"]),
    "2d": (lambda: nn.Conv2d(2, 2, 3, padding=1), (32, 32), ["frequency", "flat", "sandwich", "im2col"]),
}
CASES = [(name, order) for name, (_, _, orders) in LARGE.items() for order in orders]


@pytest.mark.parametrize(("name", "order"), CASES)
@pytest.mark.parametrize("cast", [True, False])
def test_large_values(name, order, cast):
    torch.manual_seed(0)
    make, sizes, _ = LARGE[name]
    layer = make()
    x = 100 + 10 * torch.randn(2, 2, *sizes)
    expected = layer(x)
    (slope,) = torch.autograd.grad(expected.mean(), layer.weight)
    operation = XD.from_conv(layer, sizes, order=order)
    if not cast:
        operation, x = operation.half(), x.half()
    x.requires_grad_()
    with torch.autocast("cpu", dtype=torch.float16, enabled=cast):
        y = operation(x)
    assert y.dtype == torch.float16
    torch.testing.assert_close(y.float(), expected, rtol=0, atol=0.01 * expected.abs().max().item())
    slopes = torch.autograd.grad(y.float().mean(), [x, operation.weight, *operation.arch_parameters()])
    assert all(slope.isfinite().all() for slope in slopes)
    torch.testing.assert_close(slopes[1].float(), slope, rtol=0.01, atol=0.1)
