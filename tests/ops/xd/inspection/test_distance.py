"""Distances of XD-operations from their start, against Kronecker products that are formed."""

import functools
import math

import pytest
import torch
from torch import nn

from eclose.ops.kaleidoscope import butterfly, pairs
from eclose.ops.xd import XD, distances
from tests.ops.xd.cases import OPERATIONS, conv, shaken
from tests.ops.xd.learned_operations import made, tabulated

PARTS = ("K", "L", "M", "b", "C", "operation", "entries")


def values(operation):
    found = distances(operation)
    return [getattr(found, name) for name in PARTS]


def formed(operation):
    """K, L and M as the operation uses them, as whole matrices."""
    parts = operation.architecture.matrices(operation.axes)
    return [functools.reduce(torch.kron, [torch.complex(*matrix) for matrix in part]).detach() for part in parts]


@pytest.mark.parametrize("name", OPERATIONS)
def test_nothing_has_moved_at_the_start(name):
    assert all(value in (0, None) for value in values(OPERATIONS[name]()))


@pytest.mark.parametrize("name", OPERATIONS)
def test_matrices_entries_and_the_rest(name):
    operation, start = shaken(OPERATIONS[name]()), OPERATIONS[name]()
    found = distances(operation)
    for part, now, before in zip("KLM", formed(operation), formed(start), strict=True):
        assert getattr(found, part) == pytest.approx(((now - before).norm() / before.norm()).item(), rel=1e-10)
    ours, theirs = (torch.cat([p.flatten() for p in op.arch_parameters()]).detach() for op in (operation, start))
    assert found.entries == pytest.approx(((ours - theirs).norm() / theirs.norm()).item(), rel=1e-12)
    gates, bias = operation.architecture.C, operation.architecture.b
    assert (found.C is None) == (gates is None)
    assert (found.b is None) == (bias is None)
    if gates is not None:
        assert vars(found)["C"] == pytest.approx((gates - 1).square().mean().sqrt().item(), rel=1e-12)
    if bias is not None:  # relative to b = 1
        assert found.b == pytest.approx(pairs.to_complex(bias).abs().square().mean().sqrt().item(), rel=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda: made((7,), 3, (1, 2, 1), "zeros"),
        lambda: made((4, 5), (3, 2), (1, 1, 1)),
        lambda: XD.from_conv(conv(1, 1, 1, 3, padding=2, bias=False), 6, causal=True),
        lambda: XD.from_conv(conv(2, 1, 1, 2, padding=1, bias=False, stride=2), (3, 5), causal=True),
        lambda: XD.from_avg_pool(nn.AvgPool2d(2), 1, (4, 6)).double(),
    ],
)
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
def test_the_whole_operation(make):
    operation = shaken(make())
    (taps, free), (taps_before, free_before) = tabulated(operation), tabulated(make())
    rms = operation.weight.square().mean().sqrt()
    moved = torch.stack([rms * (taps - taps_before).norm(), (free - free_before).norm()]).norm()
    before = torch.stack([rms * taps_before.norm(), free_before.norm()]).norm()
    assert distances(operation).operation == pytest.approx((moved / before).item(), rel=1e-6)


def test_complex_gates():
    operation = XD.from_conv(conv(1, 2, 3, 3, padding=1), 6, gates="complex")
    assert not any(values(operation))
    with torch.no_grad():
        operation.architecture.C[..., 1] = 0.5
    found = distances(operation)
    assert vars(found)["C"] == pytest.approx(0.5)
    assert [vars(found)[part] for part in "KLMb"] == [0] * 4


@pytest.mark.parametrize("angle", [0.6, 2.0, -3.0])
def test_a_phase_of_all_gates_is_one_of_the_operation(angle):
    operation = made((4, 5), (3, 2), (1, 1, 1), gates="complex")
    phase = torch.polar(torch.ones(()).double(), torch.tensor(angle).double())
    with torch.no_grad():
        operation.architecture.C.copy_(pairs.from_complex(phase.expand(1, 1)))
    found = distances(operation)
    assert vars(found)["C"] == pytest.approx(abs(phase - 1).item())
    assert found.operation == pytest.approx(1 - math.cos(angle), rel=1e-6)  # of a real map Real(e^it z) is cos t z
    with torch.no_grad():
        entries = operation.architecture.K[0].entries  # the way back: every path has one entry of each stage
        back = phase ** (-1 / len(operation.architecture.radices[0]))
        entries.copy_(pairs.from_complex(pairs.to_complex(entries) * back))
    assert distances(operation).operation < 1e-9


def test_entries_may_move_where_the_operation_does_not():
    operation = made((8,), 3, (1, 1, 1))
    part = operation.architecture.M[0]
    with torch.no_grad():
        stages = butterfly.views(part.entries.movedim(-1, 0), part.radices)
        stages[0].mul_(3)
        stages[1].div_(3)
    found = distances(operation)
    assert found.entries > 0.5
    assert max(found.M, found.operation) < 1e-12
    with torch.no_grad():
        part.entries.mul_(2 ** (1 / len(part.radices)))
        other = operation.architecture.K[0]
        other.entries.div_(2 ** (1 / len(other.radices)))
    found = distances(operation)
    assert [vars(found)[part] for part in "KLM"] == pytest.approx([0.5, 0, 1], abs=1e-12)
    assert found.operation < 1e-12


def test_starts_that_are_zero():
    operation = XD.from_identity(1, (6,), scale=0.0).double()
    assert not any(values(operation))
    with torch.no_grad():
        operation.architecture.b[..., 0] = 0.5
        operation.architecture.L[0].entries.copy_(XD.from_conv(conv(1, 1, 1, 1), 6).architecture.L[0].entries)
    found = distances(operation)
    assert found.b == pytest.approx(0.5)
    assert vars(found)["L"] == pytest.approx(1)  # as far as the L of a convolution
    rms = operation.weight.square().mean().sqrt().item()
    assert found.operation == pytest.approx(math.hypot(0.5, rms), rel=1e-6)


def test_pooling_starts_are_kept():
    operation = XD.from_avg_pool(nn.AvgPool2d(3, divisor_override=2), 2, (9, 7))
    assert max(values(operation)) < 1e-6
    with torch.no_grad():
        operation.architecture.b.mul_(1.5)
    assert distances(operation).b == pytest.approx(0.5)
    assert distances(operation).operation == pytest.approx(0.5, rel=1e-5)
