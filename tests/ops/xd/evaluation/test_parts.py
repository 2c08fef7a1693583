"""Orders evaluated in parts, a few frequencies or samples at a time: the same function, in bounded memory."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from eclose.ops.xd import XD
from eclose.ops.xd.evaluation import ORDERS
from eclose.ops.xd.evaluation.frequency import BLOCK_NUMBERS, blocks
from eclose.ops.xd.evaluation.shifts.order import CHUNK_NUMBERS, chunks
from tests.ops.xd.cases import CASES, OPERATIONS, agree, conv, gradients, shaken, signal, truth


@pytest.fixture(params=[1, 3000])
def numbers(request, monkeypatch):
    """From one frequency, or sample, at a time to a few of them."""
    for table in (BLOCK_NUMBERS, CHUNK_NUMBERS):
        monkeypatch.setitem(table, "cpu", request.param)
    return request.param


@pytest.mark.parametrize(("name", "order"), CASES)
def test_parts_make_the_whole(name, order, numbers):
    operation = shaken(OPERATIONS[name](order=order))
    x = signal(5, operation.in_channels, *[axis.size for axis in operation.axes]).requires_grad_()
    inputs = [x, *operation.parameters()]
    y, expected = operation(x), truth(operation, x)
    agree([y], [expected])
    agree(gradients(y, inputs), gradients(expected, inputs))


def test_there_are_parts(numbers):
    operation = OPERATIONS["2d"](largest=7)
    terms = operation.terms(
        signal(5, 2, 5, 6), operation.axes, operation.architecture.prepared("im2col", operation.axes)
    )
    frequencies = [index for block in blocks(terms) for index in range(7)[block]]
    assert frequencies == list(range(7))
    samples = [index for chunk in chunks(terms) for index in range(5)[chunk]]
    assert samples == list(range(5))
    assert len(blocks(terms)) == {1: 7, 3000: 2}[numbers]
    assert len(chunks(terms)) == {1: 5, 3000: 3}[numbers]


class Largest(TorchDispatchMode):
    """The size of the largest tensor that is made."""

    def __init__(self):
        super().__init__()
        self.size = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(found):
            if isinstance(tensor, torch.Tensor):
                self.size = max(self.size, tensor.untyped_storage().nbytes() // tensor.element_size())
        return found


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_no_intermediate_signal_is_larger_than_the_input(axes, bias, order, monkeypatch):
    for table in (BLOCK_NUMBERS, CHUNK_NUMBERS):
        monkeypatch.setitem(table, "cpu", 4000)
    operation = shaken(XD.from_conv(conv(axes, 4, 4, 3, padding=1), 4, bias=bias, order=order, largest=5))
    x = signal(100 * 4 ** (3 - axes), 4, *[4] * axes).requires_grad_()
    with Largest() as largest:
        operation(x).sum().backward()
    assert largest.size <= x.numel()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_a_frozen_architecture_is_not_differentiated(axes, order):
    operation = shaken(XD.from_conv(conv(axes, 4, 4, 3, padding=1), 6, bias=False, order=order))
    x = signal(40, 4, *[6] * axes).requires_grad_()

    def products():
        y = operation(x)
        with FlopCounterMode(display=False) as counter:
            gradients(y, [x, operation.weight])
        return counter.get_total_flops()

    trained = products()
    for parameter in operation.arch_parameters():
        parameter.requires_grad_(False)
    assert products() < 0.8 * trained


def causal_truth(operation, x):
    """Every output of the last axis from the inputs that it may see, the others being zero."""
    allowed = operation.axes[-1].causal()
    return torch.stack([truth(operation, x * seen)[..., place] for place, seen in enumerate(allowed)], dim=-1)


@pytest.mark.parametrize("order", ["sandwich", "im2col"])
@pytest.mark.parametrize(("bias", "gates"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize(
    ("layer", "size"),
    [
        (conv(1, 4, 2, 3, padding=2, stride=2, groups=2), 7),
        (conv(2, 2, 3, 3, padding=1, dilation=(1, 2)), (3, 7)),
        (conv(3, 1, 2, 2, padding=1), (2, 3, 4)),
    ],
)
def test_causal_orders(layer, size, bias, gates, order, numbers):
    operation = shaken(XD.from_conv(layer, size, causal=True, bias=bias, gates=gates, order=order))
    x = signal(3, operation.in_channels, *[axis.size for axis in operation.axes]).requires_grad_()
    inputs = [x, *operation.parameters()]
    y, expected = operation(x), causal_truth(operation, x)
    agree([y], [expected])
    agree(gradients(y, inputs), gradients(expected, inputs))
