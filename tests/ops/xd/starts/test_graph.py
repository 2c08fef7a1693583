"""Operations that start as graph convolutions: the dense product is the truth."""

import pytest
import torch
from torch import nn

from eclose.ops.xd import XD
from tests.ops.xd.cases import agree, conv, gradients, shaken, signal, truth


def adjacency(nodes, edges, seed=0):
    """A random graph without loops, symmetric, of about so many edges."""
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.zeros(nodes, nodes, dtype=torch.float64)
    ends = torch.randint(nodes, (2, edges), generator=generator)
    matrix[ends[0], ends[1]] = matrix[ends[1], ends[0]] = 1
    return matrix.fill_diagonal_(0)


def convolution(matrix):
    """``D^-1/2 (A + 1) D^-1/2``."""
    looped = matrix + torch.eye(len(matrix), dtype=matrix.dtype)
    rate = looped.sum(1).rsqrt()
    return rate[:, None] * looped * rate


def diffusion(matrix):
    """``D^-1 A``, zero where a node has no neighbour."""
    return matrix / matrix.sum(1, keepdim=True).clamp(min=1)


@pytest.mark.parametrize(("nodes", "edges"), [(1, 0), (2, 1), (6, 3), (8, 9), (13, 20), (19, 30)])
@pytest.mark.parametrize("kind", [convolution, diffusion])
def test_values_and_gradients(kind, nodes, edges):
    graph = kind(adjacency(nodes, edges))
    layer = conv(1, 3, 4, 1)
    x = signal(2, 3, nodes).requires_grad_()
    inputs = [x, layer.weight, layer.bias]
    for options in [{}, {"paper": True}, {"depth": (2, 1, 8)}, {"gates": False, "bias": False}]:
        operation = XD.from_graph(layer, graph, **options)
        expected = layer(x @ graph.mT)
        agree([operation(x)], [expected], 1e-12)
        agree(gradients(operation(x), inputs), gradients(expected, inputs))


@pytest.mark.parametrize("order", ["frequency", "sandwich", "im2col"])
def test_away_from_the_start(order):
    operation = shaken(XD.from_graph(conv(1, 2, 2, 1), convolution(adjacency(7, 5)), order=order), scale=0.1)
    x = signal(2, 2, 7)
    agree([operation(x)], [truth(operation, x)])


def test_frozen_is_still_the_graph_convolution():
    graph, layer, x = diffusion(adjacency(8, 9)), conv(1, 3, 4, 1), signal(2, 3, 8)
    operation = XD.from_graph(layer, graph)
    for parameter in operation.arch_parameters():
        parameter.requires_grad_(False)
    agree([operation(x)], [layer(x @ graph.mT)], 1e-12)


def test_sizes():
    assert XD.from_graph(conv(1, 2, 2, 1), torch.eye(8)).axes[0].transform == 8
    assert XD.from_graph(conv(1, 2, 2, 1), torch.ones(5, 5)).axes[0].transform == 25
    assert XD.from_graph(conv(1, 2, 2, 1), torch.eye(8)).architecture.depth == (1, 1, 6)


def test_mistakes():
    with pytest.raises(ValueError, match="Conv1d of one tap without stride and padding, not Conv1d"):
        XD.from_graph(nn.Conv1d(2, 2, 3), torch.eye(4))
    with pytest.raises(ValueError, match=r"\(nodes, nodes\) is needed, not torch.int64 \(4, 4\)"):
        XD.from_graph(nn.Conv1d(2, 2, 1), torch.eye(4).long())
    with pytest.raises(ValueError, match=r"not torch.float32 \(4, 5\)"):
        XD.from_graph(nn.Conv1d(2, 2, 1), torch.ones(4, 5))
    for nodes in (7, 9):
        with pytest.raises(ValueError, match=f"an input of {nodes} nodes given for a graph of 8"):
            XD.from_graph(nn.Conv1d(2, 2, 1), torch.eye(8))(torch.zeros(1, 2, nodes))
