"""What modules say of their own training is done, in an ordinary step."""

import contextlib

import pytest
import torch
from torch import Tensor, nn

from eclose.train import GradientStep, Objective, World
from eclose.train.losses import make_loss
from eclose.train.verbs import Verbs


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

    @contextlib.contextmanager
    def one_pass(self):
        self.told.append("begin")
        yield
        self.told.append("end")


class Shared(nn.Module):
    """Two of them have one context."""

    def __init__(self, owner: Talkative) -> None:
        super().__init__()
        self.owner = [owner]

    @property
    def one_pass(self):
        return self.owner[0].one_pass


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


def test_modules_that_share_a_context_enter_it_once():
    owner = Talkative()
    network = nn.ModuleList([owner, Shared(owner), Shared(owner)])
    with Verbs(network).one_pass():
        assert owner.told == ["begin"]
    assert owner.told == ["begin", "end"]


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
