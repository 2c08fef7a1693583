"""Heads: pooling and resizing against torch's own."""

import pytest
import torch
from torch.nn import functional as F

from eclose.signature import Signature
from eclose.spaces.einspace.build.head import Resize, averages, head
from eclose.spaces.einspace.shapes import State

POOLS = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 12, 13])
@pytest.mark.parametrize("goal", [1, 2, 3, 5, 7, 12, 13])
def test_averages_are_adaptive_pooling(size: int, goal: int) -> None:
    x = torch.randn(2, 3, size)
    torch.testing.assert_close(x @ averages(size, goal).T, F.adaptive_avg_pool1d(x, goal))


@pytest.mark.parametrize(
    ("sizes", "wanted"), [((7,), (11,)), ((4, 9), (4, 5)), ((4, 9), (7, 9)), ((2, 3, 5), (4, 3, 7)), ((1, 1), (6, 5))]
)
def test_resize(sizes: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    resize = Resize(sizes, wanted).double()
    x = torch.randn(2, 3, *sizes, dtype=torch.float64, requires_grad=True)
    truth = POOLS[len(sizes)](x, wanted)
    torch.testing.assert_close(resize(x), truth, rtol=1e-6, atol=1e-7)  # the averages are made in float32
    weight = torch.randn_like(truth)
    ours, theirs = (torch.autograd.grad((y * weight).sum(), x)[0] for y in (resize(x), truth))
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)


def test_pooled_heads_average_over_space_or_tokens() -> None:
    signature = Signature("classification", 3, (8, 8), 4)
    image = torch.randn(2, 6, 3, 5)
    network = head(State("im", (6, 3, 5)), signature)
    torch.testing.assert_close(network(image), network[1](image.mean((2, 3))))
    tokens = torch.randn(2, 7, 6)
    network = head(State("col", (7, 6)), signature)
    torch.testing.assert_close(network(tokens), network[1](tokens.mean(1)))


def test_dense_heads() -> None:
    signature = Signature("dense", 1, (6, 4), 2)
    on_grid = head(State("col", (6, 5), (3, 2)), signature)
    tokens = torch.randn(2, 6, 5)
    image = tokens.transpose(1, 2).reshape(2, 5, 3, 2)
    truth = F.adaptive_avg_pool2d(image, (6, 4))
    torch.testing.assert_close(on_grid(tokens), on_grid[-1](truth))
    on_line = head(State("col", (7, 5), (3, 2)), signature)
    tokens = torch.randn(2, 7, 5)
    truth = F.adaptive_avg_pool1d(tokens.transpose(1, 2), 24).reshape(2, 5, 6, 4)
    torch.testing.assert_close(on_line(tokens), on_line[-1](truth))
    assert not head(State("im", (5, 6, 4)), signature).state_dict().keys() - {"1.weight", "1.bias"}
