import copy

import pytest
import torch
from torch import nn

from eclose.backbones import SpectralConv
from eclose.errors import ConfigError
from eclose.ops.mixture import mixture_of_conv
from eclose.ops.state_space import StateSpace
from eclose.ops.xd import XD
from eclose.train.optimisers import make_optimiser, optimisers, parameter_groups


class PlainRelativeSGD(torch.optim.Optimizer):
    """The formula of :class:`RelativeSGD`, tensor by tensor, with the weights of its means written out."""

    def __init__(self, params, lr, weight_decay, momentum=0.9, foreach=False):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})
        self.seen = {}

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                gradients = self.seen.setdefault(p, [])
                gradients.append(p.grad.clone())
                ages = range(len(gradients) - 1, -1, -1)
                shares = [(1 - group["momentum"]) * group["momentum"] ** age for age in ages]
                mean = sum(share * g for share, g in zip(shares, gradients, strict=True))
                weights = [0.999**age for age in ages]
                squares = sum(w * g.square().sum() for w, g in zip(weights, gradients, strict=True)) / sum(weights)
                length = max(p.norm().item(), 0.1 * p.numel() ** 0.5)
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * length * mean / self.sizes(gradients, weights, squares))

    def sizes(self, gradients, weights, squares):
        return squares.sqrt()


class PlainRelativeAdam(PlainRelativeSGD):
    """The formula of :class:`RelativeAdam`: every entry by its own size, all together by their number."""

    def sizes(self, gradients, weights, squares):
        entries = sum(w * g.square() for w, g in zip(weights, gradients, strict=True)) / sum(weights)
        return entries.clamp_min(1e-8 * squares / entries.numel()).sqrt() * entries.numel() ** 0.5


PLAIN = {
    "sgd": (torch.optim.SGD, {"momentum": 0.9}, {}),
    "sgd nesterov": (
        torch.optim.SGD,
        {"momentum": 0.5, "nesterov": True},
        {"momentum": 0.5, "nesterov": True},
    ),
    "sgd plain": (torch.optim.SGD, {}, {"momentum": 0.0}),
    "relative_sgd": (PlainRelativeSGD, {}, {}),
    "relative_sgd momentum": (PlainRelativeSGD, {"momentum": 0.5}, {"momentum": 0.5}),
    "relative_adam": (PlainRelativeAdam, {}, {}),
    "adam": (torch.optim.Adam, {}, {}),
    "adam betas": (torch.optim.Adam, {"betas": (0.5, 0.9), "eps": 1e-3}, {"betas": [0.5, 0.9], "eps": 1e-3}),
    "adamw": (torch.optim.AdamW, {}, {}),
    "adadelta": (torch.optim.Adadelta, {}, {}),
    "adadelta rho": (torch.optim.Adadelta, {"rho": 0.5, "eps": 1e-3}, {"rho": 0.5, "eps": 1e-3}),
}


def network(seed=0):
    torch.manual_seed(seed)
    convolution, norm, linear = nn.Conv1d(2, 3, 3), nn.BatchNorm1d(3), nn.Linear(9, 2)
    return nn.Sequential(convolution, nn.Tanh(), norm, nn.Flatten(), linear).double()


def train(model, optimiser, steps=6):
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        x = torch.randn(4, 2, 5, generator=generator, dtype=torch.float64)
        optimiser.zero_grad()
        model(x).square().mean().backward()
        optimiser.step()
    return [p.detach() for p in model.parameters()]


@pytest.mark.parametrize("case", list(PLAIN))
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_same_steps_as_torch(case, weight_decay):
    make, settings, options = PLAIN[case]
    ours, plain = network(), network()
    groups = parameter_groups(ours, 0.01, weight_decay, decay_vectors=True)
    start = [p.detach().clone() for p in plain.parameters()]
    wanted = train(plain, make(plain.parameters(), lr=0.01, weight_decay=weight_decay, foreach=False, **settings))
    got = train(ours, make_optimiser(case.split()[0], groups, options))
    torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-12)
    assert all((a - b).abs().max() > 1e-5 for a, b in zip(got, start, strict=True))


@pytest.mark.parametrize("name", list(optimisers))
def test_decay_only_where_it_should_be(name):
    model = network()
    optimiser = make_optimiser(name, parameter_groups(model, 0.1, 0.5, decay_vectors=False), {})
    before = [p.detach().clone() for p in model.parameters()]
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step()
    for old, new in zip(before, model.parameters(), strict=True):
        assert torch.equal(old, new) is (new.ndim <= 1)


@pytest.mark.parametrize("name", list(optimisers))
def test_two_runs_and_any_number_of_threads_agree_bit_for_bit(name):
    threads = torch.get_num_threads()
    results = []
    try:
        for count in (1, 1, 2, 3):
            torch.set_num_threads(count)
            generator = torch.Generator().manual_seed(0)
            # long enough to be split between threads, and odd so that no vector register fits it
            weight = nn.Parameter(torch.randn(70001, generator=generator))
            gradient = torch.randn(70001, generator=generator)
            group = {"name": "all", "params": [weight], "lr": 0.01, "weight_decay": 0.1}
            optimiser = make_optimiser(name, [group], {})
            for step in range(4):
                weight.grad = gradient * (step + 1)
                optimiser.step()
            results.append(weight.detach())
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(results[0], result) for result in results[1:])


@pytest.mark.parametrize("name", list(optimisers))
def test_a_gradient_may_come_late(name):
    """As in a supernet whose architecture starts to move after the warm-up."""

    def run(make):
        first, late = (nn.Parameter(torch.full((3,), value)) for value in (1.0, 2.0))
        optimiser = make([first, late])
        for step in range(5):
            first.grad = torch.ones(3)
            late.grad = torch.ones(3) if step >= 2 else None
            optimiser.step()
        return [first.detach(), late.detach()]

    group = {"name": "all", "lr": 0.1, "weight_decay": 0.01}
    got = run(lambda params: make_optimiser(name, [{**group, "params": params}], {}))
    make, settings, _ = PLAIN[name]
    wanted = run(lambda params: make(params, lr=0.1, weight_decay=0.01, foreach=False, **settings))
    torch.testing.assert_close(got, wanted)
    assert (got[1] != 2.0).all()


@pytest.mark.parametrize("name", list(optimisers))
def test_state_survives_a_restart(name):
    straight, broken = network(), network()

    def make(model):
        return make_optimiser(name, parameter_groups(model, 0.01, 0.1, decay_vectors=False), {})

    one = make(straight)
    train(straight, one)
    wanted = train(straight, one)
    first = make(broken)
    train(broken, first)
    state = copy.deepcopy(first.state_dict())
    second = make(broken)
    second.load_state_dict(state)
    got = train(broken, second)
    assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))


def relative_steps(name, scale, start, steps=30, vanish=1.0):
    """Norm of each step relative to that of what is moved, for gradients of one direction."""
    weight = nn.Parameter(start.clone())
    group = {"name": "all", "params": [weight], "lr": 0.01, "weight_decay": 0.0}
    optimiser = make_optimiser(name, [group], {"momentum": 0.0})
    found = []
    for step in range(steps):
        before = weight.detach().clone()
        weight.grad = scale * vanish**step * torch.tensor([3.0, -4.0, 0.5])
        optimiser.step()
        found.append(((weight.detach() - before).norm() / before.norm().clamp_min(0.1 * 3**0.5)).item())
    return found


@pytest.mark.parametrize("name", ["relative_sgd", "relative_adam"])
def test_steps_are_relative_to_what_they_move(name):
    """Whatever the units of the loss and of the tensor; zeros move too, and steps end as gradients do."""
    start = torch.tensor([1.0, 2.0, 3.0])
    for scale in (1e-6, 1.0, 1e6):
        assert relative_steps(name, scale, start) == pytest.approx([0.01] * 30, rel=1e-4)
        assert relative_steps(name, scale, 1000 * start) == pytest.approx([0.01] * 30, rel=1e-4)
        assert relative_steps(name, scale, 0 * start, steps=5) == pytest.approx([0.01] * 5, rel=1e-4)
    assert relative_steps(name, 1.0, start, vanish=0.8)[-1] < 1e-4


def test_complex_parameters_are_trained_without_fused_kernels():
    weight = nn.Parameter(torch.ones(3, dtype=torch.complex64))
    weight.grad = torch.full((3,), 1j)
    group = {"name": "all", "params": [weight], "lr": 0.1, "weight_decay": 0.0}
    make_optimiser("adam", [group], {}).step()
    torch.testing.assert_close(weight.detach(), torch.full((3,), 1 - 0.1j))


def test_groups():
    model = network()
    (group,) = parameter_groups(model, 0.1, 0.5, decay_vectors=True)
    assert [id(p) for p in group["params"]] == [id(p) for p in model.parameters()]
    assert (group["name"], group["lr"], group["weight_decay"]) == ("decayed", 0.1, 0.5)
    decayed, undecayed = parameter_groups(model, 0.1, 0.5, decay_vectors=False)
    conv, _, norm, _, linear = model
    assert [id(p) for p in decayed["params"]] == [id(conv.weight), id(linear.weight)]
    assert [id(p) for p in undecayed["params"]] == [id(p) for p in (conv.bias, norm.weight, norm.bias, linear.bias)]
    assert (undecayed["name"], undecayed["lr"], undecayed["weight_decay"]) == ("undecayed", 0.1, 0.0)


class Named(nn.Linear):
    undecayed = ("weight",)


@pytest.mark.parametrize("decay_vectors", [True, False])
def test_what_a_module_names_is_not_decayed(decay_vectors):
    model = nn.Sequential(Named(3, 2, bias=False), nn.Linear(2, 2, bias=False))
    decayed, undecayed = parameter_groups(model, 0.1, 0.5, decay_vectors=decay_vectors)
    assert (undecayed["name"], undecayed["weight_decay"]) == ("undecayed", 0.0)
    assert [id(p) for group in (decayed, undecayed) for p in group["params"]] == [
        id(model[1].weight),
        id(model[0].weight),
    ]


def test_a_parameter_that_is_shared_with_a_module_that_names_it_is_not_decayed():
    model = nn.Sequential(nn.Linear(2, 2, bias=False), Named(2, 2, bias=False))
    model[1].weight = model[0].weight
    (group,) = parameter_groups(model, 0.1, 0.5, decay_vectors=True)
    assert group["name"] == "undecayed"


def undecayed(model):
    groups = {group["name"]: group["params"] for group in parameter_groups(model, 0.1, 0.5, decay_vectors=True)}
    exempt = {id(parameter) for parameter in groups["undecayed"]}
    return {name for name, parameter in model.named_parameters() if id(parameter) in exempt}


def assigned(model):
    new = copy.deepcopy(model)
    new.load_state_dict({name: tensor.detach().clone() for name, tensor in model.state_dict().items()}, assign=True)
    return new


@pytest.mark.parametrize("again", [lambda model: model, copy.deepcopy, assigned], ids=["made", "copied", "assigned"])
def test_operations_whose_parameters_are_not_decayed(again):
    """Whatever makes a parameter anew: a mark on the parameter itself would be lost."""
    relaxed = XD.from_conv(nn.Conv2d(2, 2, 3, padding=1), (4, 5), depth=(1, 2, 1))
    own = {id(parameter) for parameter in relaxed.arch_parameters()}
    architecture = {name for name, parameter in relaxed.named_parameters() if id(parameter) in own}
    assert len(architecture) == 3 * 2 + 2
    assert undecayed(again(relaxed)) == architecture
    mixed = mixture_of_conv(nn.Conv1d(2, 2, 3, padding=1))
    assert undecayed(again(mixed)) == {"alpha"}
    assert undecayed(again(StateSpace(3))) == {"log_step", "log_decay", "frequency"}


def test_frozen_and_shared_parameters():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    model[1].bias.requires_grad_(False)
    groups = parameter_groups(model, 0.1, 0.5, decay_vectors=False)
    assert [[id(p) for p in group["params"]] for group in groups] == [
        [id(model[0].weight)],
        [id(model[0].bias)],
    ]


def test_nothing_to_train_is_refused():
    model = nn.Linear(3, 3).requires_grad_(False)
    assert parameter_groups(model, 0.1, 0.5, decay_vectors=False) == []
    with pytest.raises(ConfigError, match="'sgd' has nothing to train: no parameter requires a gradient"):
        make_optimiser("sgd", [], {})


def test_bad_settings_are_refused():
    groups = parameter_groups(nn.Linear(3, 3), 0.1, 0.5, decay_vectors=True)
    with pytest.raises(ConfigError, match="optimiser 'adam': Invalid beta parameter"):
        make_optimiser("adam", groups, {"betas": (1.5, 0.9)})
    with pytest.raises(ConfigError, match=r"betas are \[0.5\], but must be two numbers"):
        make_optimiser("adam", groups, {"betas": (0.5,)})
    with pytest.raises(ConfigError, match="optimiser 'sgd': Nesterov momentum requires a momentum"):
        make_optimiser("sgd", groups, {"momentum": 0.0, "nesterov": True})
    with pytest.raises(ConfigError, match="optimiser: 'sgd' has no option 'betas'"):
        make_optimiser("sgd", groups, {"betas": (0.5, 0.9)})
    with pytest.raises(ConfigError, match="unknown optimiser 'adamv'; did you mean 'adam"):
        make_optimiser("adamv", groups, {})


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", list(optimisers))
def test_the_gpu_makes_the_same_steps(name):
    results = []
    for device in ("cpu", "cuda"):
        generator = torch.Generator().manual_seed(0)
        weight = nn.Parameter(torch.randn(1001, generator=generator).to(device))
        gradient = torch.randn(1001, generator=generator).to(device)
        group = {"name": "all", "params": [weight], "lr": 0.01, "weight_decay": 0.1}
        optimiser = make_optimiser(name, [group], {})
        for step in range(4):
            weight.grad = gradient * (step + 1)
            optimiser.step()
        results.append(weight.detach().cpu())
    torch.testing.assert_close(*results)


def test_rates_of_wide_layers_fall_in_proportion():
    convolution = nn.Conv2d(8, 4, 5)  # 200 inputs
    model = nn.Sequential(convolution, nn.Flatten(), nn.Linear(4, 30), nn.Linear(30, 2))
    groups = parameter_groups(model, 0.1, 0.5, decay_vectors=False, widest=50)
    told = {(group["name"], group["lr"]): {id(p) for p in group["params"]} for group in groups}
    assert told.keys() == {("decayed", 0.1), ("decayed", 0.1 * 50 / 200), ("undecayed", 0.1)}
    assert told["decayed", 0.025] == {id(convolution.weight)}
    assert sum(map(len, told.values())) == len(list(model.parameters()))


def test_frequencies_are_not_inputs():
    model = SpectralConv(4, 4, 12, 2)
    (group,) = parameter_groups(model, 0.1, 0.5, decay_vectors=False, widest=8)
    assert group["lr"] == 0.1
