"""Impulse responses are what a layer answers, and tell whether it still is the same everywhere."""

import pytest
import torch
from torch import nn

from eclose.ops.xd import XD, impulse_responses
from eclose.ops.xd.inspection.impulse import strongest_channels
from tests.ops.xd.learned_operations import dilated, scrambled

OPERATIONS = {
    "signal": lambda: XD.from_conv(nn.Conv1d(3, 4, 5, padding=2), 32),
    "strided image": lambda: XD.from_conv(nn.Conv2d(2, 4, 3, stride=2, padding=1), (15, 12)),
    "circular": lambda: XD.from_conv(nn.Conv1d(2, 2, 3, padding=1, padding_mode="circular"), 30),
    "grouped": lambda: XD.from_conv(nn.Conv1d(4, 8, 3, padding=1, groups=4), 20),
    "complex gates": lambda: XD.from_conv(nn.Conv1d(4, 4, 3, padding=1), 20, gates="complex"),
    "transposed": lambda: XD.from_transposed(nn.ConvTranspose1d(2, 4, 4, stride=2, padding=1), 16),
    "Fourier layer": lambda: XD.from_fno(nn.Parameter(torch.randn(2, 3, 4, 2)), 32),
    "pooling": lambda: XD.from_avg_pool(nn.AvgPool1d(2), 2, 8),
    "volume": lambda: XD.from_conv(nn.Conv3d(1, 2, 3, padding=1), (6, 7, 8)),
}


def moved(operation: XD) -> XD:
    with torch.no_grad():
        for parameter in operation.arch_parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    return operation


@pytest.mark.parametrize("name", OPERATIONS)
def test_they_are_the_answers_of_the_layer_and_of_its_start(name: str) -> None:
    torch.manual_seed(0)
    operation = OPERATIONS[name]()
    zero = torch.zeros(1, operation.in_channels, *[axis.size for axis in operation.axes])
    answers = []
    for _ in range(2):
        seen = impulse_responses(operation)
        output, channel = seen.channels
        for number, place in enumerate(seen.places):
            impulse = zero.clone()
            impulse[(0, channel, *place)] = 1
            with torch.no_grad():
                answer = (operation(impulse) - operation(zero))[0, output].double()
            torch.testing.assert_close(seen.found[number], answer, rtol=1e-5, atol=1e-5)
        answers.append(seen)
        moved(operation)
    first, second = answers
    torch.testing.assert_close(first.found, first.start, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(second.start, first.start)
    assert first.variance[1] is not None
    assert second.variance[1] is not None
    assert first.variance[1] < 1e-4 < 0.1 < second.variance[1], "what moved at random is not the same everywhere"
    assert second.variance[0] == first.variance[0]


def test_another_convolution_is_the_same_everywhere_and_a_permutation_is_not() -> None:
    after, before = impulse_responses(dilated((24,), 3, (2,), (2,))).variance[::-1]
    assert after is not None
    assert after < 1e-6
    assert before == 0
    operation, _ = scrambled((24,), 3)
    after = impulse_responses(operation).variance[1]
    assert after is not None
    assert after > 0.5


def test_nodes_of_a_graph_have_no_shifts() -> None:
    operation = XD.from_graph(nn.Conv1d(2, 2, 1), torch.rand(7, 7, generator=torch.Generator().manual_seed(0)))
    seen = impulse_responses(operation)
    assert seen.found.shape == (3, 7)
    assert seen.variance == (None, None)


def test_the_pair_of_channels_with_the_largest_weights() -> None:
    operation = XD.from_conv(nn.Conv1d(4, 6, 3, padding=1, groups=2), 9)
    with torch.no_grad():
        operation.weight.fill_(0.1)
        operation.weight[5, 1] = 1
        assert strongest_channels(operation) == (5, 3)
        operation.architecture.C[5, 1] = 0.01
        operation.architecture.C[0, 1] = -3
        assert strongest_channels(operation) == (0, 1)


def test_the_layer_stays_as_it_is() -> None:
    operation = moved(OPERATIONS["signal"]()).train()
    before = {name: tensor.clone() for name, tensor in operation.state_dict().items()}
    impulse_responses(operation)
    assert operation.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in operation.state_dict().items())
    assert all(parameter.requires_grad for parameter in operation.arch_parameters())
