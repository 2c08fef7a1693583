"""The kernels for shift tensors, against torch's operations in double precision, values and derivatives."""

import pytest
import torch

from eclose.ops.xd.evaluation.shifts.tensors import shift_tensor

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def with_derivatives(matrices):
    leaves = [matrix.requires_grad_() for matrix in matrices]
    found = shift_tensor(*leaves)
    cotangent = torch.linspace(-1, 2, found.numel(), device="cuda", dtype=found.dtype).view_as(found).sin()
    return [found.detach(), *torch.autograd.grad(found, leaves, cotangent)]


@pytest.mark.parametrize("shape", [(5, 7, 3, 6), (1, 1, 1, 1), (65, 33, 2, 17), (128, 130, 3, 128), (12, 40, 41, 90)])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_they_equal_those_of_torch(shape, batch):
    out, n, taps, size = shape
    generator = torch.Generator("cuda").manual_seed(0)
    shapes = [(*batch, 2, n, out), (*batch, 2, n, taps), (*batch, 2, n, size)]
    matrices = [torch.randn(one, device="cuda", generator=generator) for one in shapes]
    expected = with_derivatives([matrix.double() for matrix in matrices])
    for one, other in zip(with_derivatives(matrices), expected, strict=True):
        assert one.shape == other.shape
        assert (one - other).norm() < 1e-5 * other.norm()
