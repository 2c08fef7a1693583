"""What a replayed step does outside of its graph; trainings by graphs are in ``end_to_end/test_gpu.py``."""

from fractions import Fraction
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from eclose.train import GradientStep, Objective, World
from eclose.train.graph import GraphStep, _Captured
from eclose.train.losses import make_loss


@pytest.fixture
def graph(monkeypatch):
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: None)
    model = nn.Linear(2, 1)
    groups = [{"params": [model.weight], "lr": 0.1}, {"params": [model.bias], "lr": 0.02, "scheduled": False}]
    optimiser, cpu = torch.optim.AdamW(groups, capturable=True), torch.device("cpu")
    return GraphStep(GradientStep(model, Objective(make_loss("mse", {}), None), [optimiser], 0.0, "tf32", cpu, World()))


def rates(graph):
    return [group["lr"].item() for group in graph.step.groups]


def test_rates_move_in_their_place(graph):
    """A graph reads them where they were when it was captured."""
    places = [group["lr"].data_ptr() for group in graph.step.groups]
    assert rates(graph) == pytest.approx([0.1, 0.02])
    for factor in (0.5, 0.0, 1.0):
        graph.set_rate(factor, 1.0)
        assert rates(graph) == pytest.approx([0.1 * factor, 0.02])
    assert [group["lr"].data_ptr() for group in graph.step.groups] == places


def test_rates_of_a_loaded_state_move_too(graph):
    graph.set_rate(0.5, 1.0)
    graph.load_state_dict(graph.state_dict())
    assert rates(graph) == pytest.approx([0.05, 0.02])
    graph.set_rate(0.25, 2.0)
    assert rates(graph) == pytest.approx([0.025, 0.02])


def test_a_graph_keeps_what_was_said_right_before_its_capture(graph, monkeypatch):
    """What it reads may belong to that, and not to an equal one from the steps before."""
    said = []

    def shape_key():
        said.append(Fraction(1, 2))  # equal, but each time another object
        return said[-1]

    monkeypatch.setattr(graph.step.verbs, "shape_key", shape_key)
    monkeypatch.setattr(graph, "_warm_up", lambda *batch: setattr(graph, "_seen", graph._seen + 1))

    def capture():
        graph._graphs[graph._shapes] = captured = _Captured(SimpleNamespace(replay=lambda: None), torch.zeros(()))
        return captured

    monkeypatch.setattr(graph, "_capture", capture)
    graph._x, graph._y, graph._batch = torch.randn(4, 2), torch.randn(4, 1), 4
    for _ in range(6):
        graph(graph._x, graph._y, 4)
    assert len(said) == 6
    (kept,) = graph._graphs
    assert kept is said[3]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("lasting", [False, True])
def test_batches_in_the_same_tensors_or_in_others(lasting):
    """The same numbers; a batch that was handed in once is never written to."""
    gpu = torch.device("cuda", 0)
    generator = torch.Generator().manual_seed(0)
    batches = [(torch.randn(8, 2, generator=generator).to(gpu), torch.randn(8, 1).to(gpu)) for _ in range(7)]
    given = [(x.clone(), y.clone()) for x, y in batches]

    def trained(graphed):
        torch.manual_seed(0)
        model = nn.Linear(2, 1).to(gpu)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
        step = GradientStep(model, Objective(make_loss("mse", {}), None), [optimiser], 0.0, "float32", gpu, World())
        step = GraphStep(step) if graphed else step
        buffers = [tensor.clone() for tensor in given[0]]
        losses = []
        for x, y in given:
            if lasting:
                buffers[0].copy_(x), buffers[1].copy_(y)
                x, y = buffers
            losses.append(step(x, y, 8).item())
        return losses

    assert trained(True) == pytest.approx(trained(False), rel=1e-5)
    for (x, y), (other, label) in zip(given, batches, strict=True):
        assert torch.equal(x, other)
        assert torch.equal(y, label)
