"""Shift tensors against their definition in complex arithmetic, values and derivatives."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from eclose.ops.kaleidoscope import pairs
from eclose.ops.xd.evaluation.shifts.tensors import shift_tensor
from tests.ops.xd.cases import signal


def matrices(*batch):
    shapes = {1: (5, 4), 2: (5, 3), 3: (5, 2)}  # the adjoint of K, L and M
    return [signal(*batch, 2, *shape, seed=seed).requires_grad_() for seed, shape in shapes.items()]


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("real", [False, True])
def test_shifts_are_the_definition(batch, real):
    outer, filters, inner = (pairs.to_complex(matrix.movedim(-3, -1)) for matrix in matrices(*batch))
    expected = torch.einsum("...fp,...fs,...fu->...spu", outer.conj(), filters, inner)
    found = shift_tensor(*matrices(*batch), real=real).unbind(-4)
    for one, other in zip(found, [expected.real] if real else [expected.real, expected.imag], strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("real", [False, True])
def test_derivatives_by_differences(real):
    assert gradcheck(lambda *given: shift_tensor(*given, real=real), matrices(2))
    assert gradgradcheck(lambda *given: shift_tensor(*given, real=real), matrices(2))
