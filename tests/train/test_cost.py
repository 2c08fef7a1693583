import math

import pytest
import torch
from torch import nn

from eclose.signature import Signature
from eclose.train import measure_cost

CPU = torch.device("cpu")


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def flops(model, space, channels=3, tokens=0):
    return measure_cost(model, Signature("dense", channels, space, 1, tokens), CPU).flops


@pytest.mark.parametrize("bias", [True, False])
def test_convolutions_by_hand(bias):
    cost = measure_cost(nn.Conv1d(3, 5, 7, padding=3, bias=bias), Signature("dense", 3, (16,), 5), CPU)
    assert cost.flops == 2 * 3 * 5 * 7 * 16
    assert cost.parameters == 3 * 5 * 7 + 5 * bias
    assert flops(nn.Conv2d(3, 5, 3, stride=2, padding=1), (8, 10)) == 2 * 3 * 5 * 9 * 4 * 5
    assert flops(nn.Conv2d(4, 8, 3, padding=1, groups=2), (6, 6), 4) == 2 * (4 // 2) * 8 * 9 * 36
    assert flops(nn.Conv3d(2, 4, 3, padding=1), (3, 4, 5), 2) == 2 * 2 * 4 * 27 * 60


def test_linear_by_hand():
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8, 10), nn.ReLU(), nn.Linear(10, 4))
    cost = measure_cost(model, Signature("classification", 3, (8,), 4), CPU)
    assert cost.flops == 2 * (24 * 10 + 10 * 4)
    assert cost.parameters == 24 * 10 + 10 + 10 * 4 + 4


def test_elementwise_work_does_not_count():
    assert flops(nn.Sequential(nn.BatchNorm1d(3), nn.ReLU(), nn.AvgPool1d(2)), (8,)) == 0


def test_what_is_prepared_once_and_kept_is_no_work_of_a_sample():
    class Prepares(nn.Module):
        def __init__(self):
            super().__init__()
            self.matrix = None

        def forward(self, x):
            if self.matrix is None:
                self.matrix = torch.eye(8) @ torch.eye(8)
            return x @ self.matrix

    model = Prepares()
    assert flops(model, (8,)) == flops(model, (8,)) == 2 * 3 * 8 * 8


def test_only_trainable_parameters_count():
    model = nn.Conv1d(3, 5, 1)
    model.bias.requires_grad_(False)
    tied = nn.Sequential(model, nn.Conv1d(5, 3, 1), model)
    assert measure_cost(model, Signature("dense", 3, (4,), 5), CPU).parameters == 15
    assert measure_cost(tied, Signature("dense", 3, (4,), 5), CPU).parameters == 15 + 18


@pytest.mark.parametrize("n", [8, 9, 16])
def test_fourier_transforms_by_their_formula(n):
    real = int(2.5 * 3 * n * math.log2(n))
    assert flops(Function(torch.fft.rfft), (n,)) == real
    assert flops(Function(torch.fft.fft), (n,)) == real  # torch uses that the input is real
    assert flops(Function(lambda x: torch.fft.fft(torch.complex(x, x))), (n,)) == int(5 * 3 * n * math.log2(n))
    there_and_back = Function(lambda x: torch.fft.irfft(torch.fft.rfft(x), n=n))
    assert flops(there_and_back, (n,)) == 2 * real


def test_fourier_transforms_of_several_axes():
    one = int(2.5 * 3 * 8 * 16 * math.log2(8 * 16))
    got = flops(Function(torch.fft.rfft2), (8, 16))
    assert got == one
    padded = flops(Function(lambda x: torch.fft.rfft(x, n=32)), (8,))
    assert padded == int(2.5 * 3 * 32 * math.log2(32))


def test_one_point():
    assert flops(Function(torch.fft.rfft), (1,)) <= 10


def test_tokens():
    model = nn.Sequential(nn.Embedding(50, 6), nn.Linear(6, 2))
    assert flops(model, (9,), 1, tokens=50) == 9 * 2 * 6 * 2


def test_the_model_is_left_as_it_was():
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5))
    model[1].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    flops(model, (8,))
    assert [module.training for module in model.modules()] == [True, True, False]
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_also_when_it_fails():
    model = nn.Sequential(nn.Linear(3, 2))
    with pytest.raises(RuntimeError):
        flops(model, (8,))
    assert model.training
