"""The planner against counts by hand and in the corners where the winner is known."""

import itertools

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from eclose.ops.xd import XD, plan, plan_axis
from eclose.ops.xd.evaluation import ORDERS, planner
from eclose.ops.xd.evaluation.planner import costs, merged_cost
from tests.ops.xd.cases import conv, shaken, signal


def batched(_, x, y, **rest):
    """What torch's counter leaves out: products that are added in place."""
    return 2 * x[0] * x[1] * x[2] * y[2]


@pytest.mark.parametrize("gates", ["real", "complex"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("axes", "order"), [*itertools.product([1, 2, 3], ORDERS), *itertools.product([2, 3], ["flat"])]
)
def test_products_are_those_that_torch_counts(axes, bias, gates, order):
    layer = conv(axes, 4, 6, 3, padding=1, stride=2)
    options = {"bias": bias, "gates": gates, "order": order, "recompute": False}
    operation = shaken(XD.from_conv(layer, (7, 9, 8)[:axes], **options))
    # Torch does not count what makes the matrices of the flat order; the planner not what b adds to filters.
    batch = 100 if order == "flat" else 20
    x = torch.randn(batch, 4, *(7, 9, 8)[:axes], dtype=torch.float64)
    with FlopCounterMode(display=False, custom_mapping={torch.ops.aten.baddbmm_: batched}) as counter:
        operation(x)
    expected = costs(batch, 4, 6, 1, operation.axes, bias=bias, gates=gates)[order].products
    assert counter.get_total_flops() / 2 == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(("groups", "depth"), [(1, (1, 1, 1)), (2, (1, 1, 1)), (1, (3, 1, 1)), (2, (9, 9, 9))])
@pytest.mark.parametrize("size", [64, 70])
def test_products_of_the_merged_order(size, groups, depth):
    layer = conv(1, 4, 6, 3, padding=1, padding_mode="circular", groups=groups)
    operation = shaken(XD.from_conv(layer, size, bias=False, depth=depth, order="merged", recompute=False))
    x = torch.randn(5, 4, size, dtype=torch.float64)
    with FlopCounterMode(display=False) as counter:
        operation(x)
    assert counter.get_total_flops() / 2 == merged_cost(5, 4, 6, groups, operation.axes[0], depth=depth).products


@pytest.mark.parametrize("order", ORDERS)
def test_taps_that_are_complex_already_cost_no_more(order):
    weight = torch.nn.Parameter(torch.ones(4, 6, 4, 3, 2))
    axes = XD.from_fno(weight, (9, 8)).axes
    real, gated = (costs(5, 4, 6, 1, axes, bias=False, gates=gates)[order] for gates in ("real", "complex"))
    assert real == gated


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("batch", [2, 20])
def test_long_signals_are_never_evaluated_by_dense_matrices(batch, device):
    for size, mode in [(2048, "circular"), (8192, "circular"), (8191, "zeros")]:
        axis = plan_axis(size, 17, padding=(8, 8), mode=mode)
        assert plan(batch, 64, 64, 1, (axis,), device) == "merged"
    assert plan(batch, 64, 64, 1, (plan_axis(64, 17, padding=(8, 8)),), device) != "merged"


def test_depth_makes_dense_matrices_worth_their_price():
    """Blocks are multiplied once for all samples, but every sample goes through all of them in the merged order."""
    layer = conv(1, 64, 64, 17, padding=8, padding_mode="circular")
    for depth, order in ((1, "merged"), (9, "frequency")):
        operation = XD.from_conv(layer, 512, bias=False, gates=False, depth=(depth,) * 3)
        assert operation.planned(torch.empty(256, 64, 512), operation.axes) == order


def test_several_axes_keep_dense_matrices():
    axes = (plan_axis(421, 13, padding=(6, 6), mode="circular"),) * 2
    assert plan(20, 32, 32, 1, axes) == "frequency"


def test_large_kernels_are_evaluated_by_frequency():
    axes = (plan_axis(85, 13, padding=(6, 6), mode="circular"),) * 2
    assert plan(20, 32, 32, 1, axes) == plan(20, 32, 32, 1, axes, "cuda") == "frequency"


def test_small_kernels_on_long_signals_are_not():
    axes = (plan_axis(32, 1),) * 2
    assert plan(128, 256, 256, 1, axes, bias=False) == "im2col"
    axes = (plan_axis(128, 2),) * 2
    assert plan(2, 16, 16, 1, axes, bias=False) == "sandwich"


def test_causal_operations_have_no_frequency_order():
    axes = (plan_axis(256, 17, padding=(16, 16)),)
    assert plan(20, 64, 64, 1, axes, causal=True) not in ("frequency", "merged")


@pytest.mark.parametrize(
    ("axes", "channels", "size", "kernel", "batch", "mode", "fastest"),
    [
        (2, 64, 32, 3, 32, "zeros", "im2col"),
        (2, 64, 32, 3, 128, "zeros", "im2col"),
        (2, 128, 16, 3, 64, "zeros", "im2col"),
        (2, 256, 8, 3, 64, "zeros", "im2col"),
        (2, 16, 128, 3, 2, "zeros", "sandwich"),
        (2, 16, 32, 3, 64, "zeros", "sandwich"),
        (2, 32, 85, 13, 20, "circular", "frequency"),
        (2, 32, 32, 5, 16, "circular", "frequency"),
        (1, 64, 256, 17, 20, "circular", "merged"),
        (1, 64, 192, 17, 20, "circular", "merged"),
        (1, 64, 64, 17, 20, "circular", "frequency"),
        (1, 64, 256, 3, 20, "circular", "merged"),
        (1, 64, 128, 3, 20, "circular", "sandwich"),
        (1, 16, 128, 17, 64, "circular", "frequency"),
        (1, 16, 256, 17, 4, "circular", "frequency"),
        (3, 16, 16, 3, 4, "zeros", "frequency"),
        (3, 8, 12, 2, 8, "circular", "sandwich"),
    ],
)
def test_the_order_that_was_measured_to_be_fastest(axes, channels, size, kernel, batch, mode, fastest):
    """Forward and backward pass on a CPU, without b and C."""
    axis = plan_axis(size, kernel, padding=(kernel // 2,) * 2, mode=mode)
    assert plan(batch, channels, channels, 1, (axis,) * axes, bias=False) == fastest


@pytest.mark.parametrize(
    ("batch", "c_in", "c_out", "size", "stride", "fastest"),
    [
        (128, 64, 64, 32, 1, "flat"),
        (128, 64, 128, 32, 2, "flat"),
        (128, 64, 64, 32, 2, "flat"),
        (128, 128, 128, 16, 1, "flat"),
        (16, 256, 256, 14, 1, "flat"),
        (32, 64, 128, 32, 2, "im2col"),
        (16, 64, 128, 56, 2, "im2col"),
        (16, 128, 256, 28, 2, "im2col"),
        (16, 64, 64, 56, 1, "sandwich"),
    ],
)
def test_the_order_that_was_measured_to_be_fastest_on_a_gpu(batch, c_in, c_out, size, stride, fastest):
    """Both passes of 3 x 3 taps on an H200, TF32, as a CUDA graph, with transforms of 33, 17, ..., without b and C."""
    axis = plan_axis(size, 3, stride=stride, padding=(1, 1), largest=17)
    assert plan(batch, c_in, c_out, 1, (axis, axis), "cuda", bias=False, gates=False) == fastest


def test_the_bias_costs_less_without_gates():
    axes = (plan_axis(32, 3, padding=(1, 1)),) * 2
    full, summed = (costs(8, 16, 16, 1, axes, gates=gates)["sandwich"].products for gates in (True, False))
    bare = costs(8, 16, 16, 1, axes, bias=False)["sandwich"].products
    assert bare < summed < bare + (full - bare) / 16


def test_few_channels_on_a_gpu_have_kernels_for_small_taps():
    axes = (plan_axis(64, 3, padding=(1, 1)),) * 2
    assert plan(16, 16, 16, 1, axes, "cuda", bias=False, gates=False) == "sandwich"
    axes = (plan_axis(32, 3, padding=(1, 1)),) * 2
    assert plan(128, 16, 16, 1, axes, "cuda", bias=False, gates=False) == "sandwich"
    assert plan(128, 64, 64, 1, axes, "cuda", bias=False, gates=False) == "flat"
    assert plan(8, 32, 32, 1, axes, "cuda", bias=False, gates="complex") == "frequency"  # twice the taps: too many


def test_a_shape_is_planned_once(monkeypatch):
    operation = XD.from_conv(conv(1, 3, 5, 3, padding=1), 11)
    x = signal(7, 3, 11)
    expected = operation(x)
    monkeypatch.setattr(planner, "costs", None)
    assert torch.equal(operation(x), expected)
    with pytest.raises(TypeError):  # of another batch
        operation(x[:6])
