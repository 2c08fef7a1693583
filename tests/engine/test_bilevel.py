"""Strategy ``bilevel``: a loop written by hand, a quadratic problem whose gradients are known, whole searches."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

import eclose
from eclose.config import Config
from eclose.engine import make_strategy
from eclose.engine.bilevel import BilevelStep, LookAhead, LookAheadStep, halves
from eclose.errors import ConfigError
from eclose.signature import Signature
from eclose.spaces import make_space
from eclose.spaces.architecture import named_architecture
from eclose.train import GradientStep, Step, World
from eclose.train.data import Feed
from tests.contracts.cases import AROUND, CONTINUOUS, Case, assert_same_run, images, rows, signals
from tests.contracts.test_masked_space import masked_spaces  # noqa: F401  (a fixture)

LENET = {"backbone.name": "lenet", "backbone.widths": [2, 3], "backbone.hidden": [8]}
SGD = {"optimiser.name": "sgd", "optimiser.weight_decay": 0.0, "optimiser.momentum": 0.0}
ADAM = {"strategy.optimiser": "adam", "strategy.learning_rate": 0.1}
FINAL = {"final.networks": 1, "final.train.epochs": 3}


def test_first_order_is_a_hand_written_loop() -> None:
    """Of plain SGD; the rate of the architecture is not that of the schedule."""
    own_sgd = {"strategy.optimiser": "sgd", "strategy.learning_rate": 0.05, "strategy.momentum": 0.0}
    search = Case(images, {**LENET, **SGD, **own_sgd}).search(space="discrete", strategy="bilevel")
    halved = halves(search.task, search.config.run.seed)
    made = []
    for _ in range(2):
        torch.manual_seed(0)
        made.append(make_strategy(search.config).prepare(search, search.start, AROUND, "search"))
    ours, theirs = made[0], made[1].model.train()
    feeds = [
        Feed.of(task, search.config, AROUND.seed, AROUND.device, AROUND.world, name)
        for task, name in zip(halved, ("", "architecture"), strict=True)
    ]
    own = named_architecture(theirs)
    for number in range(3):
        ours.model.train()
        ours.step.set_rate(0.5, 0.0)
        ours.step(*feeds[0].batch(number))
        for feed, rate, mine in ((feeds[1], 0.05, True), (feeds[0], 0.5 * 0.03, False)):
            x, y, _ = feed.batch(number)
            loss = nn.functional.cross_entropy(theirs(x), y)
            moved = [p for name, p in theirs.named_parameters() if (name in own) == mine]
            with torch.no_grad():
                for parameter, slope in zip(moved, torch.autograd.grad(loss, moved), strict=True):
                    parameter.sub_(rate * slope)
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.model.state_dict()[name], value)


def test_halves_are_equal_and_apart_and_follow_from_the_seed() -> None:
    task = Case(images, {}).search(space="backbone").task
    one, other = halves(task, 0)
    assert len(one.train) == len(other.train) == len(task.train) // 2
    assert not set(one.train.rows.tolist()) & set(other.train.rows.tolist())
    assert torch.equal(halves(task, 0)[0].train.rows, one.train.rows)
    assert not torch.equal(halves(task, 1)[0].train.rows, one.train.rows)


class Quadratic(nn.Module):
    """``x (w + B a)``, whose squared error is a quadratic form of weights and architecture together."""

    def __init__(self) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(0)
        self.first, self.second, self.a, self.mixed = (
            nn.Parameter(torch.randn(shape, generator=draw, dtype=torch.float64)) for shape in (2, 3, 4, (5, 4))
        )
        self.mixed.requires_grad_(False)
        self.norm = nn.BatchNorm1d(1, dtype=torch.float64)  # of no part in the output; it counts the passes
        self.norm.requires_grad_(False)

    def arch_parameters(self) -> list[nn.Parameter]:
        return [self.a]

    def forward(self, x: Tensor) -> Tensor:
        """``(samples,)``."""
        self.norm(x[:, :1])
        return x @ (torch.cat([self.first, self.second]) + self.mixed @ self.a)


class Squares:
    """Half of the squared errors."""

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return self.judge(model(x), y)

    def judge(self, prediction: Tensor, y: Tensor) -> Tensor:
        return (prediction - y).square() / 2


class OneBatch:
    """A feed that gives the same samples whenever it is asked."""

    seed = 0

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.samples = x, y

    def batch(self, number: int) -> tuple[Tensor, Tensor, int]:
        return *self.samples, len(self.samples[0])


class Rows:
    """Squares of all outputs of a sample."""

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return self.judge(model(x), y)

    def judge(self, prediction: Tensor, y: Tensor) -> Tensor:
        return (prediction - y).square().sum(1)


def drawing_supernet(gumbel: bool) -> nn.Module:
    """In double precision, away from its start."""
    torch.manual_seed(0)
    small = {"blocks": 1, "search_cells": 3, "search_width": 4, "gumbel": gumbel}
    space = make_space(Config().with_values({"space.name": "nos", **{f"space.{k}": v for k, v in small.items()}}))
    signature = Signature("classification", 2, (12,), 3)
    model = space.supernet(space.start(signature), signature).double().train()
    with torch.no_grad():
        for parameter in named_architecture(model).values():
            parameter.normal_()
    return model


def bilevel(model: nn.Module, groups: list[dict[str, Any]], rate: float, held: OneBatch, order: int) -> Step:
    """The step of a problem that is no task."""
    architecture = [{"params": list(named_architecture(model).values()), "lr": rate}]
    steps = [
        GradientStep(model, Squares(), [torch.optim.SGD(each)], 0.0, "float32", torch.device("cpu"), World())
        for each in (groups, architecture)
    ]
    if order == 1:
        return BilevelStep(*steps, held, model)
    ahead = LookAhead(*steps, held.seed)
    return LookAheadStep(ahead, ahead, held)


@pytest.mark.parametrize("order", [1, 2])
def test_the_gradient_of_a_quadratic_problem(order: int) -> None:
    """In closed form, with another rate for each group of weights."""
    draw = torch.Generator().manual_seed(1)
    (x, y), (held_x, held_y) = (
        (torch.randn(n, 5, generator=draw).double(), torch.randn(n, generator=draw).double()) for n in (6, 7)
    )
    model = Quadratic().train()
    w, a, mixed = torch.cat([model.first, model.second]).detach(), model.a.detach().clone(), model.mixed.detach()
    rates = torch.tensor([0.3, 0.3, 0.1, 0.1, 0.1], dtype=torch.float64)
    groups = [{"params": [model.first], "lr": 0.3}, {"params": [model.second], "lr": 0.1}]
    step = bilevel(model, groups, 0.5, OneBatch(held_x, held_y), order)

    def slope(inputs: Tensor, targets: Tensor, weights: Tensor, own: Tensor) -> Tensor:
        """Of the mean loss with respect to the weights."""
        return inputs.T @ (inputs @ (weights + mixed @ own) - targets) / len(inputs)

    step.set_rate(1.0, 0.0)
    total = step(x, y, len(x))
    ahead = w - rates * slope(x, y, w, a) if order == 2 else w
    held_slope = slope(held_x, held_y, ahead, a)
    gradient = mixed.T @ held_slope
    if order == 2:
        gradient = gradient - mixed.T @ (x.T @ x / len(x)) @ (rates * held_slope)
    moved = a - 0.5 * gradient
    torch.testing.assert_close(model.a.detach(), moved, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(total, (x @ (w + mixed @ moved) - y).square().sum() / 2)
    expected = w - rates * slope(x, y, w, moved)
    torch.testing.assert_close(torch.cat([model.first, model.second]).detach(), expected, rtol=1e-10, atol=1e-10)
    assert all(parameter.requires_grad for parameter in (model.a, model.first, model.second))
    assert not model.mixed.requires_grad
    assert int(model.norm.num_batches_tracked) == 3 - order, "looking ahead leaves no trace in running statistics"


@pytest.mark.parametrize("gumbel", [False, True])
def test_the_gradient_of_a_supernet_is_that_of_autograd(gumbel: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that draws, too: every pass on the samples of the weights is one of the same function."""
    monkeypatch.setattr("eclose.engine.bilevel._NEARBY", 1e-5)
    monkeypatch.setattr(nn.Module, "get_parameter", lambda own, name: getattr(own, name))  # or a plain tensor
    model, rate, draw = drawing_supernet(gumbel), 0.05, torch.Generator().manual_seed(1)
    own = named_architecture(model)
    weights = {name: p for name, p in model.named_parameters() if name not in own}
    (x, y), (held_x, held_y) = ((torch.randn(6, 2, 12, generator=draw).double(), torch.zeros(6, 3)) for _ in range(2))
    groups = ({"params": [*weights.values()], "lr": rate}, {"params": [*own.values()], "lr": 1.0})
    around = (0.0, "float32", AROUND.device, World())
    steps = [GradientStep(model, Rows(), [torch.optim.SGD([group])], *around) for group in groups]
    ahead, starts = LookAhead(*steps, 0), {name: p.detach().clone() for name, p in own.items()}
    ahead._draw_the_same()
    loss = Rows().judge(functional_call(model, {**weights, **own}, (x,)), y).mean()
    slopes = torch.autograd.grad(loss, [*weights.values()], create_graph=True)
    looked = {name: p - rate * slope for (name, p), slope in zip(weights.items(), slopes, strict=True)}
    held_loss = Rows().judge(functional_call(model, {**looked, **own}, (held_x,)), held_y).mean()
    wanted = torch.autograd.grad(held_loss, [*own.values()])
    ahead._move_architecture((x, y, 6), (held_x, held_y, 6))
    for (name, parameter), slope in zip(own.items(), wanted, strict=True):
        torch.testing.assert_close(starts[name] - parameter.detach(), slope, rtol=1e-5, atol=1e-8)


def kept_at_most(space: str, **settings: Any) -> int:
    """Bytes that a step keeps for backward passes at any time."""
    case = CONTINUOUS[space]
    search = Case(case.data, {**case.settings, **settings}).search(space=space)
    ready = make_strategy(search.config).prepare(search, search.start, AROUND, "search")
    ready.model.train()
    ready.step.set_rate(1.0, 0.0)
    kept = {"now": 0, "most": 0}

    class Kept:
        def __init__(self, tensor: Tensor) -> None:
            self.tensor, self.size = tensor.detach(), tensor.numel() * tensor.element_size()
            kept["now"] += self.size
            kept["most"] = max(kept.values())

        def __del__(self) -> None:
            kept["now"] -= self.size

    with torch.autograd.graph.saved_tensors_hooks(Kept, lambda one: one.tensor):
        ready.step(*ready.task.train.take(torch.arange(8)), 8)
    assert kept["now"] == 0
    return kept["most"]


@pytest.mark.parametrize("space", ["xd", "discrete", "chrysalis"])
@pytest.mark.parametrize("order", [1, 2])
def test_no_pass_keeps_the_graph_of_another(space: str, order: int) -> None:
    """The memory is that of one pass of a supernet, whatever the order."""
    one = kept_at_most(space, **{"strategy.name": "supernet"})
    assert 0 < kept_at_most(space, **{"strategy.name": "bilevel", "strategy.order": order}) <= one


class Followed(nn.Module):
    """Training pulls the weight to the architecture; the samples of the architecture want a weight of 3."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.a = (nn.Parameter(torch.zeros((), dtype=torch.float64)) for _ in range(2))

    def arch_parameters(self) -> list[nn.Parameter]:
        return [self.a]

    def forward(self, x: Tensor) -> Tensor:  # 1: a sample of the weights, 0: one of the architecture
        """``(samples,)``."""
        return self.w - x * self.a


@pytest.mark.parametrize(("order", "best"), [(1, 0.0), (2, 3.0)])
def test_only_looking_ahead_finds_an_architecture_that_acts_through_the_weights(order: int, best: float) -> None:
    model, one = Followed(), torch.ones(1, dtype=torch.float64)
    step = bilevel(model, [{"params": [model.w], "lr": 0.2}], 0.5, OneBatch(0 * one, 3 * one), order)
    for _ in range(300):
        step.set_rate(1.0, 0.0)
        step(one, 0 * one, 1)
    assert model.a.item() == pytest.approx(best, abs=1e-6)
    assert model.w.item() == pytest.approx(best, abs=1e-6)


@pytest.mark.usefixtures("masked_spaces")
@pytest.mark.parametrize(
    ("space", "case", "order"),
    [("discrete", Case(images, LENET), 2), ("masked", Case(signals, {}), 1), ("anew", Case(signals, {}), 1)],
    ids=str,
)
def test_a_search_with_a_final_stage(space: str, case: Case, order: int, tmp_path: Path) -> None:
    given = {"strategy": "bilevel", "settings": {**FINAL, **ADAM, "strategy.order": order}}
    whole = case.run(tmp_path / "whole", space, **given)
    (search,), finals = rows(whole.run), rows(whole.run, "final")  # a second one, if the first was worse than the trial
    assert (search.epochs, {final.epochs for final in finals}) == (2, {3})
    assert {search.hash} == {final.hash for final in finals} == {whole.genotype.hash}
    case.interrupted(tmp_path / "run", space, (0, 1), (1, 2), **given)
    assert_same_run(tmp_path / "run", whole.run)
    x = case.data()["x"][:4]
    assert eclose.predict(whole.run, x)["label"].shape == (4,)
    assert torch.equal(eclose.load(tmp_path / "run")(torch.from_numpy(x)), whole.model(torch.from_numpy(x)))
    assert (whole.run / "report.html").exists()
    assert (whole.run / "result.json").exists()


@pytest.mark.usefixtures("masked_spaces")
def test_on_the_toy_space_it_finds_a_smaller_network(tmp_path: Path) -> None:
    settings = {**ADAM, "train.keep": "last"}
    result = Case(signals, {}).run(tmp_path / "run", "masked", strategy="bilevel", settings=settings)
    (row,) = rows(result.run)
    width = row.genotype["width"]
    assert width < 12
    assert row.parameters == 16 * width + width + width * 3 + 3


def test_a_search_that_ends_in_its_warm_up_finds_what_the_architecture_says(tmp_path: Path) -> None:
    """Of the epoch, half a warm-up, one step is taken: nothing has moved but weights."""
    settings = {"strategy.warmup_epochs": 0.5, "train.epochs": 1, "train.batch": 32, "compare.baselines": []}
    result = CONTINUOUS["nos"].run(tmp_path / "run", "nos", settings=settings)
    assert {"shares", "history"} <= result.genotype.choices.keys()
    assert result.genotype.label != "NOS cells", "not the start"


@pytest.mark.parametrize(("minutes", "told"), [(1.0, 1), (0.0, 0)])
def test_a_clock_may_end_a_warm_up(minutes: float, told: int) -> None:
    case = Case(images, {**LENET, "strategy.warmup_epochs": 1.5, "budget.minutes": minutes})
    search = case.search(space="discrete", strategy="bilevel")
    notices = make_strategy(search.config).notices(search)
    assert [text.startswith("strategy.warmup_epochs is 1.5: where --minutes end") for text in notices] == [True] * told


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"strategy.order": 3}, "strategy.order is 3, but must be 1 or 2"),
        (
            {"strategy.order": 2, "train.precision": "float16"},
            "strategy.order=2 needs gradients as they are, which float16 scales: use bfloat16",
        ),
        ({"strategy.warmup_epochs": 2.0}, "nothing would be searched; lower it, or train longer"),
        ({"strategy.optimiser": "adm"}, "unknown optimiser 'adm'; did you mean 'adam'"),
    ],
    ids=str,
)
def test_options_that_do_not_fit(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as error:
        Case(images, {**LENET, **settings}).search(space="discrete", strategy="bilevel")
    assert "\n" not in str(error.value)
