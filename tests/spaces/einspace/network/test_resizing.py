"""Resizing against torch's adaptive pooling: values and gradients."""

import pytest
import torch
from torch import nn
from torch.func import grad, vmap
from torch.nn import functional as F

from eclose.spaces.einspace.network.heads import ResizeAxis, resize

POOLS = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}
SIZES = [1, 2, 3, 5, 7, 12, 13, 101]


def compare(layer: nn.Module, sizes: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    x = torch.randn(2, 3, *sizes, dtype=torch.float64, requires_grad=True)
    y, truth = layer(x), POOLS[len(sizes)](x, wanted)
    torch.testing.assert_close(y, truth)
    weight = torch.randn_like(truth)
    ours, theirs = (torch.autograd.grad((z * weight).sum(), x)[0] for z in (y, truth))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("goal", SIZES)
def test_one_axis(size: int, goal: int) -> None:
    compare(ResizeAxis(2, size, goal), (size,), (goal,))


@pytest.mark.parametrize(
    ("sizes", "wanted"), [((7,), (11,)), ((4, 9), (4, 5)), ((4, 9), (7, 9)), ((2, 3, 5), (4, 3, 7)), ((1, 1), (6, 5))]
)
def test_axes(sizes: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    layers = resize(sizes, wanted)
    assert len(layers) == sum(size != goal for size, goal in zip(sizes, wanted, strict=True))
    compare(nn.Sequential(*layers), sizes, wanted)


def test_second_derivatives() -> None:
    x = torch.randn(1, 2, 7, dtype=torch.float64, requires_grad=True)
    layer = ResizeAxis(2, 7, 5)
    assert torch.autograd.gradgradcheck(lambda x: layer(x).square(), x)


def test_gradients_of_every_sample() -> None:
    layer, x = ResizeAxis(2, 7, 5), torch.randn(4, 2, 7, dtype=torch.float64)
    found = vmap(grad(lambda sample: layer(sample.unsqueeze(0)).square().sum()))(x)
    truth = [grad(lambda y: F.adaptive_avg_pool1d(y, 5).square().sum())(sample) for sample in x]
    torch.testing.assert_close(found, torch.stack(truth))


def test_export() -> None:
    layer, x = nn.Sequential(*resize((7, 5), (4, 8))), torch.randn(3, 2, 7, 5)
    program = torch.export.export(layer, (x,), dynamic_shapes=({0: torch.export.Dim("batch", min=2, max=64)},))
    torch.testing.assert_close(program.module()(x[:2]), F.adaptive_avg_pool2d(x[:2], (4, 8)))


def test_values_that_are_no_numbers_stay_in_their_windows() -> None:
    x = torch.tensor([[[1.0, 2.0, 3.0, 4.0, torch.inf]]])
    assert ResizeAxis(2, 5, 2)(x).tolist() == F.adaptive_avg_pool1d(x, 2).tolist() == [[[2.0, torch.inf]]]
