"""What modules say of their own training is done, in an ordinary step."""

import contextlib

import pytest
import torch
from torch import Tensor, nn

from eclose.train import GradientStep, Objective, World
from eclose.train.losses import make_loss
from eclose.train.module_hooks import Verbs, one_pass


class Talkative(nn.Module):
    """A scale that costs something, has a second output, a clamp and a rate that falls."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.register_buffer("drop", torch.tensor(1.0))
        self.last: Tensor | None = None
        self.told: list[str] = []

    def forward(self, x: Tensor) -> Tensor:
        assert self.told[-1] == "begin"
        self.last = 3 * self.scale * x
        return self.scale * x

    def extra_loss(self) -> Tensor:
        return 5 * self.scale

    def auxiliary_outputs(self) -> list[tuple[float, Tensor]]:
        assert self.last is not None
        return [(0.25, self.last)]

    def before_step(self, epochs: float) -> None:
        self.drop.fill_(epochs)

    def after_step(self) -> None:
        self.told.append("after")
        self.scale.clamp_(min=1.5)

    @classmethod
    @contextlib.contextmanager
    def one_pass(cls, modules):
        for module in modules:
            module.told.append("begin")
        yield
        for module in modules:
            module.told.append("end")


class Quiet(Talkative):
    """Of another class."""


def step_of(model: nn.Module, rate: float, scheduled: bool = True) -> GradientStep:
    group = {"params": list(model.parameters()), "lr": rate, "scheduled": scheduled}
    optimisers = [torch.optim.SGD([group])]
    objective = Objective(make_loss("mse", {}), torch.tensor(2.0))
    return GradientStep(model, objective, optimisers, 0.0, "float32", torch.device("cpu"), World())


def test_losses_are_added_and_differentiated():
    model = Talkative()
    x, y = torch.tensor([[1.0], [2.0]]), torch.tensor([[0.5], [3.0]])
    step = step_of(model, rate=0.0)
    total = step(x, y, 2)
    scale = torch.tensor(2.0, requires_grad=True)
    plain = ((scale * x - y) / 2).square().flatten()
    second = ((3 * scale * x - y) / 2).square().flatten()
    expected = (plain + 0.25 * second + 5 * scale).sum()
    assert total.item() == pytest.approx(expected.item())
    (expected / 2).backward()
    assert model.scale.grad.item() == pytest.approx(scale.grad.item())


def test_before_around_and_after_a_step():
    model = Talkative()
    step = step_of(model, rate=0.1)
    step.set_rate(1.0, 2.5)
    assert model.drop.item() == 2.5
    step(torch.ones(1, 1), torch.ones(1, 1), 1)
    assert model.told == ["begin", "end", "after"]
    assert model.scale.item() == 1.5  # the step went below, the clamp brought it back


def test_backward_and_move_are_the_step():
    one, two = Talkative(), Talkative()
    x, y = torch.ones(2, 1), torch.zeros(2, 1)
    whole, parts = step_of(one, 0.01), step_of(two, 0.01)
    assert whole(x, y, 2) == parts.backward(x, y, 2)
    assert two.scale.item() == 2.0
    parts.move()
    assert one.scale.item() == two.scale.item() != 2.0


@pytest.mark.parametrize("around", [one_pass, lambda network: Verbs(network).one_pass()])
def test_modules_of_one_class_have_one_context(around, monkeypatch):
    network = nn.ModuleList([Talkative(), nn.Sequential(Talkative(), Quiet())])
    entered, original = [], Talkative.one_pass.__func__

    def counted(cls, modules):
        entered.append((cls, len(modules)))
        return original(cls, modules)

    monkeypatch.setattr(Talkative, "one_pass", classmethod(counted))
    with around(network):
        assert entered == [(Talkative, 2), (Quiet, 1)]
        assert [module.told for module in network.modules() if hasattr(module, "told")] == [["begin"]] * 3
    assert network[0].told == ["begin", "end"]


def test_a_group_may_keep_its_rate():
    for scheduled, rate in ((True, 0.05), (False, 0.1)):
        step = step_of(Talkative(), 0.1, scheduled)
        step.set_rate(0.5, 0.0)
        assert step.groups[0]["lr"] == rate


def test_shapes_are_static_unless_a_module_says_otherwise():
    network = nn.Sequential(nn.Linear(1, 1), Talkative())
    assert Verbs(network).static_shapes
    network[1].static_shapes = False
    assert not Verbs(network).static_shapes
