"""The sandwich order on two axes with kernels of our own, against that of torch's operations in double precision."""

import pytest
import torch
from torch import nn

from eclose.ops.xd import XD
from eclose.ops.xd.evaluation.shifts import sandwich
from eclose.ops.xd.evaluation.shifts.order import ShiftNeeds
from tests.ops.xd.cases import shaken

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

SHAPES = [  # batch, groups, c_in and c_out of a group, sizes, kernels, outs
    (2, 1, 3, 4, (5, 6), (3, 2), (5, 7)),
    (1, 2, 2, 3, (3, 4), (1, 3), (2, 5)),
    (1, 1, 1, 1, (1, 1), (1, 1), (1, 1)),
    (3, 2, 5, 4, (8, 20), (2, 2), (4, 17)),
    (1, 1, 70, 24, (33, 35), (3, 3), (17, 18)),
    (2, 1, 16, 16, (128, 128), (3, 3), (128, 128)),
    (1, 1, 32, 32, (20, 40), (3, 3), (20, 40)),  # too many rows to take the place of what they are made from
]


def terms(shape):
    batch, groups, c_in, c_out, sizes, kernels, outs = shape
    generator = torch.Generator("cuda").manual_seed(0)
    shapes = [(groups, c_out, c_in, *kernels)]
    shapes += [(2, kernel, out, size) for kernel, out, size in zip(kernels, outs, sizes, strict=True)]
    shapes += [(batch, groups * c_in, *sizes), (batch, groups * c_out, *outs)]
    weight, first, last, x, cotangent = (torch.randn(one, device="cuda", generator=generator) for one in shapes)
    return x, sandwich.arranged(weight), [first, last], cotangent


def evaluated(given, needs, dtype):
    x, mixing, shifts, cotangent = given
    x, mixing, cotangent = (tensor.to(dtype) for tensor in (x, mixing, cotangent))
    shifts = [shift.to(dtype) for shift in shifts]
    with torch.no_grad():
        return [sandwich.applied(x, mixing, shifts), *sandwich.applied_gradients(x, mixing, shifts, cotangent, needs)]


@pytest.mark.parametrize(
    "needs", [ShiftNeeds(True, True, True), ShiftNeeds(True, False, False), ShiftNeeds(False, True, False)]
)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.bfloat16, 0.05)])
def test_it_is_the_order_of_torch(shape, needs, dtype, bound):
    given = terms(shape)
    for one, other in zip(evaluated(given, needs, dtype), evaluated(given, needs, torch.float64), strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert one.shape == other.shape
            assert one.dtype == dtype
            assert (one - other).norm() < bound * other.norm()


@pytest.mark.parametrize("options", [{}, {"bias": False, "gates": False}])
def test_operations_and_their_derivatives(options):
    conv = nn.Conv2d(4, 6, (3, 2), padding=1, stride=(2, 1), groups=2, bias=False)
    operation = shaken(XD.from_conv(conv, (9, 12), order="sandwich", **options)).cuda()
    found = []
    for dtype in (torch.float32, torch.float64):
        operation.to(dtype)
        x = torch.linspace(-3, 3, 2 * 4 * 9 * 12, device="cuda", dtype=dtype).sin().view(2, 4, 9, 12).requires_grad_()
        y = operation(x)
        found.append([y.detach(), *torch.autograd.grad(y.square().sum(), [x, *operation.parameters()])])
    for one, other in zip(*found, strict=True):
        assert (one - other).norm() < 1e-4 * other.norm()
