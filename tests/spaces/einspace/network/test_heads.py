"""Heads: pooling and resizing against torch's own."""

import torch
from torch.nn import functional as F

from eclose.signature import Signature
from eclose.spaces.einspace import build, parse
from eclose.spaces.einspace.network.heads import head
from eclose.spaces.einspace.terminals.state import State


def test_pooled_heads_average_over_space_or_tokens() -> None:
    signature = Signature("classification", 3, (8, 8), 4)
    image = torch.randn(2, 6, 3, 5)
    network = head(State("im", (6, 3, 5)), signature)
    torch.testing.assert_close(network(image), network[1](image.mean((2, 3))))
    tokens = torch.randn(2, 7, 6)
    network = head(State("col", (7, 6)), signature)
    torch.testing.assert_close(network(tokens), network[1](tokens.mean(1)))


def test_dense_heads() -> None:
    """B.1: resized features, then a linear layer; here in the other order, which is the same."""
    signature = Signature("dense", 1, (6, 4), 2)
    image = torch.randn(2, 5, 3, 2)
    network = head(State("im", (5, 3, 2)), signature)
    torch.testing.assert_close(network(image), network[0](F.adaptive_avg_pool2d(image, (6, 4))))
    tokens = image.flatten(2).transpose(1, 2)
    on_grid = head(State("col", (6, 5), (3, 2)), signature)
    on_grid[0].load_state_dict({"weight": network[0].weight.flatten(1), "bias": network[0].bias})
    torch.testing.assert_close(on_grid(tokens), network(image))
    on_line = head(State("col", (7, 5), (3, 2)), signature)
    tokens = torch.randn(2, 7, 5)
    truth = F.adaptive_avg_pool1d(on_line[0](tokens).transpose(1, 2), 24).reshape(2, 2, 6, 4)
    torch.testing.assert_close(on_line(tokens), truth)
    for network in (head(State("im", (5, 6, 4)), signature), on_grid, on_line):
        assert network.state_dict().keys() == {"0.weight", "0.bias"}


def test_one_token_without_a_grid() -> None:
    network = head(State("col", (1, 5)), Signature("dense", 1, (6, 4), 2))
    tokens = torch.randn(2, 1, 5)
    torch.testing.assert_close(network(tokens), network[0](tokens).mT.unsqueeze(3).expand(2, 2, 6, 4))


def test_heads_of_many_tokens_are_small() -> None:
    """A matrix from tokens to points once took ten gigabytes."""
    signature = Signature("dense", 1, (85, 85), 1)
    network = build(parse("route(im2col(1,1,0), branch(clone(8), identity, concat(1)), identity)"), signature)
    assert sum(buffer.numel() for buffer in network.buffers()) < 10 * 8 * 85**2
    x = torch.randn(signature.input_shape(2), requires_grad=True)
    truth = F.adaptive_avg_pool1d(x.flatten(2).repeat(1, 1, 8), 85**2).unflatten(2, (85, 85))
    y = network(x)
    torch.testing.assert_close(y, network.head[0](truth.unsqueeze(-1)).squeeze(-1))
    y.sum().backward()
