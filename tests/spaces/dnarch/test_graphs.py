"""A CUDA graph for every set of sizes: what a step does outside of it, and the same numbers as without."""

from types import SimpleNamespace

import pytest
import torch

from eclose.engine.supernet import Supernet
from eclose.events import Events
from eclose.train import Surroundings, Training, World
from eclose.train.graph import _MOST, GraphStep, _Captured
from tests.contracts.cases import AROUND, Case, images, signals

SGD = {"optimiser.name": "sgd"}  # Adam makes steps of rounding errors where a gradient is zero
CASES = [
    Case(images, {**SGD, "backbone.name": "resnet20", "backbone.width": 6}),
    Case(signals, {**SGD, "backbone.width": 6, "backbone.blocks": 2, "backbone.hidden": 8, "space.learn_mean": True}),
    Case(images, {**SGD, "backbone.name": "resnet20", "backbone.width": 6, "space.learn": "RW"}),
]
WHERE = ("train.module_hooks", "spaces.dnarch.budget", "spaces.dnarch.network", "spaces.dnarch.own_network")


def trained(case, around, steps, wrap=lambda step: step):
    """Weights and masks after some steps, and the sets of sizes on the way."""
    search = case.search(space="dnarch")
    torch.manual_seed(0)
    prepared = Supernet(optimiser="adamw", learning_rate=0.1).prepare(search, search.start, around, "search")
    training = Training(prepared.model, prepared.task, prepared.step, prepared.config, around)
    step, network = wrap(training.step.step), prepared.model.get_submodule("network")
    seen = []
    for number in range(steps):
        step.set_rate(1.0 if number % 12 < 6 else 0.0, 0.0)  # sizes move for a while, then they stay
        seen.append(network.rendered())
        step(*training.feed.batch(number % 3))
    return {name: value.detach().cpu() for name, value in prepared.model.state_dict().items()}, seen


@pytest.fixture
def replays(monkeypatch):
    """Graphs that compute what they would have captured: from what was written down before, without clamps."""
    under_way, captured = [], []
    for where in WHERE:
        monkeypatch.setattr(f"eclose.{where}.capturing", lambda: bool(under_way))

    def capture(self):
        made = _Captured(SimpleNamespace(replay=lambda: None), torch.zeros(()))

        def replay():
            under_way.append(True)
            made.total.copy_(self.step(self._x, self._y, self._batch))
            under_way.clear()

        made.graph.replay = replay
        captured.append(self._shapes)
        while len(self._graphs) >= _MOST:
            self._graphs.popitem(last=False)
        self._graphs[self._shapes] = made
        return made

    monkeypatch.setattr(torch.cuda, "Stream", lambda device: None)
    monkeypatch.setattr(GraphStep, "_capture", capture)
    monkeypatch.setattr(GraphStep, "_warm_up", warm_up)
    return captured


def warm_up(self, x, y, batch):
    self._x, self._y, self._batch, self._seen = x.clone(), y.clone(), batch, self._seen + 1
    return self.step(x, y, batch)


@pytest.mark.parametrize("case", CASES, ids=["own", "ccnn", "resolutions"])
def test_a_replayed_search_has_the_numbers_of_an_ordinary_one(case, replays):
    """Sizes, the loss of the cost and its gradient are written down before; masks are clamped and shifted after."""
    wanted, seen = trained(case, AROUND, 36)
    found, others = trained(case, AROUND, 36, GraphStep)
    assert 1 < len(set(replays)) <= len(replays)
    assert len(set(seen)) > 2
    assert others == seen
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("case", CASES, ids=["own", "ccnn", "resolutions"])
def test_a_graph_for_every_set_of_sizes(case):
    gpu = Surroundings(0, 5, torch.device("cuda", 0), World(), Events())
    wanted, _ = trained(case, gpu, 36)
    steps = []

    def graphs(step):
        steps.append(GraphStep(step))
        return steps[-1]

    found, _ = trained(case, gpu, 36, graphs)
    assert len(steps[0]._graphs) > 1
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=1e-2, atol=1e-3, msg=name)
