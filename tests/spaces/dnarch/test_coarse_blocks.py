"""Resolutions of residual networks that are no ccnn: branches on fewer points, found by trying, and what is left."""

import copy
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import eclose
from eclose.errors import ConfigError
from eclose.ops.resolution import low_size, resample
from eclose.spaces.dnarch.coarse_blocks import Coarse, Resolution, coarsened
from eclose.spaces.dnarch.complexity import COUNTS, Weighing
from eclose.spaces.dnarch.own_network import Costs, MaskedNetwork, rehearse, trimmed
from eclose.spaces.dnarch.own_space import learnable, own_notices
from eclose.spaces.dnarch.plan import Plan, Span
from eclose.spaces.dnarch.residual_blocks import planned
from eclose.train import measure_cost
from eclose.train.memory_layout import lay_out
from tests.contracts.cases import AROUND, Case, images, inputs, signals
from tests.ops.test_resolution import by_fourier_transform
from tests.spaces.dnarch.measured import kept_a_sample
from tests.spaces.dnarch.test_own_network import (
    IMAGES,
    NETWORKS,
    SIGNALS,
    Basic,
    Network,
    made,
    moved,
    searching,
    signature_of,
)

TEMPERATURES = {"width": 25.0, "depth": 8.0, "resolution": 25.0}


def plan_of(network, signature, temperature=25.0) -> Plan:
    return coarsened(network, planned(network, inputs(signature, 1)), signature.axes, temperature)


def masked(network, signature, learn="RWD") -> MaskedNetwork:
    plan = plan_of(network, signature)
    made = MaskedNetwork(
        network,
        plan,
        learn=learnable(plan, learn, "yours"),
        temperatures=TEMPERATURES,
        learn_temperature=False,
        step=1,
        weighing=COUNTS["operations"],
    )
    rehearse(made, inputs(signature))
    return made


def coarse(network, signature, offset=-0.2):
    """Masks somewhere in the middle, no two alike, and weights and statistics away from where they began."""
    network = moved(network, signature)
    with torch.no_grad():
        table = network.resolutions.offset
        table.copy_(offset + 0.3 * torch.linspace(-1, 1, table.numel()).view(table.shape))
        network.resolutions.clamp()
        for _ in range(3):
            network.train()(inputs(signature, 8))
    return network


@pytest.mark.parametrize("learn", ["R", "RWD"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_trimmed_network_is_equal_and_computes_on_fewer_points(name, learn):
    signature = signature_of(name)
    network = coarse(masked(made(name), signature, learn), signature).eval()
    assert any(few < many.sizes for few, many in zip(network.sizes().points, network.plan.coarse, strict=True))
    for lying in (torch.contiguous_format, torch.channels_last):
        x = inputs(signature, 5)
        if lying is torch.channels_last:
            x = x.movedim(1, -1).contiguous().movedim(-1, 1)
            lay_out(network, "float32", torch.device("cpu"))
        plain = trimmed(network)
        torch.testing.assert_close(plain(x), network(x), rtol=1e-5, atol=1e-5)
    left = [module for module in plain.modules() if isinstance(module, Coarse)]
    assert len(left) == sum(network.sizes().open[coarse.block] for coarse in network.plan.coarse)
    assert type(plain) is Network
    assert not any("Skippable" in type(module).__name__ for module in plain.modules())
    torch.testing.assert_close(copy.deepcopy(plain)(x), plain(x))
    plain.train()(x).sum().backward()


def branch_of(name, block, low):
    """The branch of a block, its code written once more."""
    if "basic" in name:
        return block.norm2(block.conv2(F.relu(block.norm1(block.conv1(low)))))
    if "last" in name:
        y = low.movedim(1, -1)
        return (block.gain * block.down(F.gelu(block.up(block.norm(y))))).movedim(-1, 1)
    if "written" in name:
        return block.two(F.gelu(block.one(torch.tanh(low))))
    return block(low)


@pytest.mark.parametrize("name", ["basic 1d", "basic 2d", "last 1d", "last 2d", "added", "written 1d"])
def test_what_is_computed(name):
    """``x + up(branch(down(x)))``, with gradients of weights and masks, written out with Fourier transforms."""
    signature = signature_of(name)
    network = coarse(masked(made(name), signature, "R"), signature).double().eval()
    plain, x = copy.deepcopy(made(name)).double().eval(), inputs(signature, 4).double()
    copy_weights(plain, trimmed(network))
    offset = network.resolutions.offset.detach().clone().requires_grad_()
    y = plain.stem(x)
    for row, heats, block in zip(offset, network.resolutions.temperature.tolist(), plain.blocks, strict=True):
        sizes = y.shape[2:]
        low = tuple(low_size(o, t, n, n) for o, t, n in zip(row.tolist(), heats, sizes, strict=True))
        cycles = [4 * torch.arange(n // 2 + 1) / n - 1 for n in sizes]
        responses = [
            torch.where(c <= o + math_tail(t), torch.sigmoid(-t * (c - o)), 0.0)
            for c, o, t in zip(cycles, row, heats, strict=True)
        ]
        added = resample(branch_of(name, block, by_fourier_transform(y, responses, low)), sizes)
        y = F.relu(y + added) if "basic" in name else y + added
    wanted, found = plain.head(y.flatten(2).mean(2)), network(x)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)  # places of frequencies are float32
    weights = torch.randn_like(found)
    ours = torch.autograd.grad(
        (found * weights).sum(), [network.resolutions.offset, network.get_parameter("network.stem.weight")]
    )
    theirs = torch.autograd.grad((wanted * weights).sum(), [offset, plain.stem.weight])
    assert ours[0].abs().max() > 0
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def math_tail(temperature):
    return np.log(9) / temperature + 1e-5


def copy_weights(plain, found):
    """Into the same network without low-passes."""
    values = {name.replace(".block.", "."): value for name, value in found.state_dict().items()}
    plain.load_state_dict(values)


@pytest.mark.parametrize("name", NETWORKS)
def test_costs_are_those_of_the_network_that_is_left(name):
    signature = signature_of(name)
    network = coarse(masked(made(name), signature), signature)
    plain, sizes = trimmed(network).eval(), network.sizes()
    counted = measure_cost(plain, signature, AROUND.device)
    for weighing, wanted in ((COUNTS["parameters"], counted.parameters), (Weighing(products=1.0), counted.flops / 2)):
        assert Costs(network.plan, made(name), weighing).of(sizes) == pytest.approx(wanted, rel=1e-9)
    assert float(network.cost(network.offsets()).detach()) == pytest.approx(network.costs.of(sizes))


@pytest.mark.parametrize("offset", [9.0, -0.2, -9.0])
@pytest.mark.parametrize("name", NETWORKS)
def test_memory_is_what_autograd_keeps(name, offset):
    """Under masks, which need the input of ``down`` for their gradient; the shorter the masks, the less."""
    signature = signature_of(name)
    network = masked(made(name), signature, "R")
    cost, kept = Costs(network.plan, made(name), COUNTS["memory"]), []
    for each in (9.0, offset):
        with torch.no_grad():
            network.resolutions.offset.fill_(each)
        network.resolutions.clamp()
        kept.append(kept_a_sample(network, signature))
        assert cost.of(network.sizes()) == pytest.approx(kept[-1], rel=0.02)  # norms of groups
    assert (kept[1] < kept[0]) is (offset < 9)


class Gated(nn.Module):
    """Several layers begin the branch. ``own``: each is given another function of ``x``."""

    def __init__(self, own: bool) -> None:
        super().__init__()
        self.own, self.one, self.two, self.last = own, *(nn.Conv1d(8, 8, 3, padding=1) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        one, two = (F.relu(x), torch.tanh(x)) if self.own else (x, x)
        return F.relu(x + self.last(self.one(one) * torch.sigmoid(self.two(two))))


class First(nn.Module):
    """An activation that keeps its result, so that only the mask needs ``x``."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv1d(8, 8, 3, padding=1), nn.Conv1d(8, 8, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.two(F.relu(self.one(F.relu(x))))


@pytest.mark.parametrize("points", [40, 200])
@pytest.mark.parametrize("block", [lambda: Basic(1, 8, 8), lambda: Gated(False), lambda: Gated(True), First])
def test_all_signals_that_are_brought_to_fewer_points_cost_something(block, points):
    signature = replace(SIGNALS, sizes=(points,))
    network = Network(1, 8, block(), block())
    network(inputs(signature, 1))
    costs = [Costs(plan_of(network, signature), network, each) for each in (COUNTS["memory"], Weighing(products=1.0))]
    network = masked(network, signature, "R")
    for offset in (9.0, -0.2, -9.0):
        with torch.no_grad():
            network.resolutions.offset.fill_(offset)
        network.resolutions.clamp()
        memory, products = (cost.of(network.sizes()) for cost in costs)
        assert memory == pytest.approx(kept_a_sample(network, signature), rel=0.01)  # spectra have a number more
        if points == 40:  # of transforms the paper counts fewer
            plain = trimmed(network)
            assert products == pytest.approx(measure_cost(plain, signature, AROUND.device).flops / 2, rel=1e-9)


class Folded(nn.Module):
    """Every channel of the data by itself, in the place of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = nn.Conv1d(1, 8, 3, padding=1), nn.Linear(24, 4)
        self.blocks = nn.ModuleList([Basic(1, 8, 8), First()])

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x.flatten(0, 1)[:, None])
        for block in self.blocks:
            y = block(y)
        z: Tensor = self.head(y.mean(2).unflatten(0, x.shape[:2]).flatten(1))
        return z


@pytest.mark.parametrize("offset", [9.0, -0.2, -9.0])
def test_costs_where_channels_lie_in_the_batch(offset):
    signature = replace(SIGNALS, sizes=(40,))
    network = masked(Folded(), signature, "R")
    memory, products = (
        Costs(network.plan, Folded(), weighing) for weighing in (COUNTS["memory"], Weighing(products=1.0))
    )
    with torch.no_grad():
        network.resolutions.offset.fill_(offset)
    network.resolutions.clamp()
    counted = measure_cost(trimmed(network), signature, AROUND.device)
    assert products.of(network.sizes()) == pytest.approx(counted.flops / 2, rel=1e-9)
    assert memory.of(network.sizes()) == pytest.approx(kept_a_sample(network, signature), rel=1e-6)


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_reach_resolutions(name):
    signature = signature_of(name)
    network = coarse(masked(made(name), signature), signature)
    with torch.no_grad():
        network.depth.offset.fill_(9.0)
    network.depth.clamp()
    network(inputs(signature, 6)).square().sum().backward()
    assert (network.resolutions.offset.grad.abs().sum(1) > 0).all()
    network.resolutions.offset.grad = None
    network.cost(network.offsets()).backward()
    assert (network.resolutions.offset.grad > 0).all()
    with torch.no_grad():  # a mask that covers its whole axis still can become shorter
        network.resolutions.offset.fill_(9.0)
    network.resolutions.clamp()
    assert network.sizes().points == tuple(each.sizes for each in network.plan.coarse)
    network.resolutions.offset.grad = None
    network.cost(network.offsets()).backward()
    assert (network.resolutions.offset.grad > 0).all()


def test_masks_are_as_short_and_as_long_as_those_of_a_ccnn():
    signature = replace(SIGNALS, sizes=(40,))
    network = Network(1, 4, nn.Conv1d(4, 4, 3, padding=1), added=True)
    network(inputs(signature, 1))
    network = masked(network, signature, "R")
    for offset, points in ((-9.0, 6), (9.0, 40)):  # a tenth of 20 frequencies, and the constant
        with torch.no_grad():
            network.resolutions.offset.fill_(offset)
        network.resolutions.clamp()
        assert network.sizes().points == ((points,),)
    assert network.resolutions.temperature.tolist() == [[25.0]]


def test_statistics_are_those_of_what_is_computed():
    network = coarse(masked(made("basic 2d"), IMAGES, "R"), IMAGES, -0.5)
    seen = []
    norm = network.network.get_submodule("blocks.1.block.norm1")
    norm.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    before, x = norm.running_mean.clone(), inputs(IMAGES, 8)
    network.train()(x)
    assert tuple(seen[0].shape[2:]) == network.sizes().points[1] < (6, 6)
    torch.testing.assert_close(norm.running_mean, 0.9 * before + 0.1 * seen[0].mean((0, 2, 3)))
    plain = trimmed(network)
    torch.testing.assert_close(plain.get_buffer("blocks.1.block.norm1.running_mean"), norm.running_mean)


class Branch(nn.Module):
    """One layer, and what makes it fit for one size only."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.layer = kind, nn.Conv2d(4, 4, 3, padding=1)
        self.place, self.mix = nn.Parameter(torch.zeros(1, 4, 6, 6)), nn.Linear(36, 36)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(x)
        if self.kind == "positions":
            x = x + self.place
        if self.kind == "mixed":
            x = self.mix(x.flatten(2)).view(x.shape)
        if self.kind == "halved":
            x = F.interpolate(F.avg_pool2d(x, 2), scale_factor=2)
        if self.kind == "sized":
            x = F.interpolate(x, size=(6, 6))
        if self.kind == "samples":
            x = x if x.shape[-2] == 6 else x + x.mean(0, keepdim=True)
        if self.kind == "branching" and x.shape[-1] < 6:
            x = torch.relu(torch.relu(x))
        y: Tensor = self.layer(x)
        return y


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (
            "positions",
            "on 4 x 6 of 6 x 6 points it fails: RuntimeError: The size of tensor a (4) must match",
        ),
        (
            "mixed",
            "on 4 x 6 of 6 x 6 points it fails: RuntimeError: mat1 and mat2 shapes cannot be multiplied",
        ),
        ("sized", "on 4 x 6 of 6 x 6 points it gives signals of another shape"),
        ("samples", "on 4 x 6 of 6 x 6 points samples change each other"),
        ("branching", "its code does other things on fewer points"),
    ],
)
def test_branches_that_cannot_work_on_fewer_points_are_told_with_the_reason(kind, why):
    network = Network(2, 4, Branch(kind), Branch("free"), added=True)
    network(inputs(IMAGES, 1))
    plan = plan_of(network, IMAGES)
    assert [each.block for each in plan.coarse] == [1]
    (reason,) = plan.fine
    assert reason.startswith(f"'blocks.0': {why}")
    assert "\n" not in reason
    masks = {"learn": "RD", "count": "operations", "target": 0.5}
    told = own_notices(plan, "yours", masks)
    assert told[0].startswith(
        "dnarch learns the resolutions (of the branches in 1 of 2 residual blocks) and the depth (2 of 2"
    )
    assert told[1] == f"branches that keep their points: {reason}"
    alone = Network(2, 4, Branch(kind), added=True)
    alone(inputs(IMAGES, 1))
    with pytest.raises(
        ConfigError, match=re.escape("space.learn has R, but no branch of 'yours' can be computed on f")
    ):
        learnable(plan_of(alone, IMAGES), "RD", "yours")


class Begun(Basic):
    """Without a module that its branch begins with, or ends in; behind the sum an activation."""

    def __init__(self, kind: str) -> None:
        super().__init__(2, 8, 8)
        self.kind = kind

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(x) if self.kind == "relu" else x
        y = F.pad(x, (1, 1, 1, 1))[:, :, 1:-1, 1:-1] if self.kind == "padded" else y
        y = self.conv2(F.relu(self.norm1(self.conv1(y))))
        y = y * 0.5 if self.kind == "scaled" else y
        return F.relu(y + x)


def test_a_branch_that_begins_with_a_function_of_other_sizes_keeps_its_points():
    network = Network(2, 8, Begun("padded"), Basic(2, 8, 8))
    network(inputs(IMAGES, 1))
    plan = plan_of(network, IMAGES)
    assert plan.fine == ("'blocks.0': its branch begins with pad, not with a layer: put it into a module",)
    assert [each.block for each in plan.coarse] == [1]


@pytest.mark.parametrize("kind", ["relu", "scaled"])
def test_functions_around_a_span_stay_at_all_points(kind):
    network = Network(2, 8, Begun(kind))
    network(inputs(IMAGES, 1))
    plan = plan_of(network, IMAGES)
    span = plan.blocks[0].closing.span
    assert (span.begins, span.end) == (("conv1",), "conv2")
    found = coarse(masked(network, IMAGES, "R"), IMAGES).eval()
    x = inputs(IMAGES, 4)
    torch.testing.assert_close(trimmed(found)(x), found(x), rtol=1e-5, atol=1e-5)


class Added(nn.Module):
    """A branch, or its sum with ``x``, which may be written into ``x``: nothing keeps that for the way back."""

    def __init__(self, kind: str, written: bool) -> None:
        super().__init__()
        self.kind, self.written = kind, written
        self.one, self.two = nn.Conv2d(4, 6, 3, padding=1), nn.Conv2d(6, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.two(F.relu(self.one(torch.tanh(x))))
        if self.kind == "branch":
            return y
        if self.written:
            x += y
        else:
            x = x + y
        return x * 0.5 if self.kind == "scaled" else x


class Adding(Network):
    """What such blocks have written, it may read where they have written it."""

    def __init__(self, kind: str, written: bool) -> None:
        super().__init__(2, 4, Added(kind, written), Added(kind, written))
        self.kind, self.written = kind, written

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            y = block(x)
            if self.kind == "branch" and self.written:
                x += y
            elif self.kind == "branch":
                x = x + y
            elif not (self.kind == "read where it is" and self.written):
                x = y
        return self.head(x.flatten(2).mean(2))


@pytest.mark.parametrize("kind", ["sum", "scaled", "branch", "read where it is"])
def test_sums_that_are_written_in_place(kind):
    """They are those of new tensors: values, gradients and what is kept, under masks and without."""
    x, seen = inputs(IMAGES, 4), []
    for written in (False, True):
        torch.manual_seed(0)
        network = Adding(kind, written)
        network(inputs(IMAGES, 1))
        cost = Costs(plan_of(network, IMAGES), network, COUNTS["memory"])
        alone, found = masked(copy.deepcopy(network), IMAGES, "R"), masked(network, IMAGES, "RWD")
        assert [block.closing.span.written for block in found.plan.blocks] == [written] * 2
        with torch.no_grad():
            for table in (found.widths, found.resolutions):
                table.offset.fill_(-0.2)
        y = found(x)
        y.square().sum().backward()
        seen.append({"y": y, "plain": trimmed(found)(x), **{n: p.grad for n, p in found.named_parameters()}})
        assert cost.of(alone.sizes()) == pytest.approx(kept_a_sample(alone, IMAGES), rel=1e-6)
    assert seen[0]["resolutions.offset"].abs().min() > 0
    for name, one in seen[0].items():
        torch.testing.assert_close(seen[1][name], one, msg=name)


class Past(nn.Module):
    """A causal branch; its last weights begin at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv1d(4, 4, 3), nn.Conv1d(4, 4, 1)
        nn.init.zeros_(self.two.weight)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.two(F.relu(self.one(F.pad(x, (2, 0)))))


def test_what_sees_no_later_points_keeps_its_points():
    """Pointwise branches of such a network, too."""
    network = Network(1, 4, Past(), nn.Sequential(nn.Conv1d(4, 4, 1)))
    network.added = False
    network(inputs(SIGNALS, 1))
    assert plan_of(network, SIGNALS).fine[0].startswith("'blocks.0': the network sees no later points, but a signal on")
    long = replace(SIGNALS, sizes=(32,))
    for causal in (True, False):
        plan = plan_of(eclose.backbones.make_backbone("tcn", long, {"causal": causal}), long)
        assert bool(plan.coarse) is not causal


def test_no_target_without_widths_or_depth():
    """As of a ccnn: the loss alone moves resolutions."""
    search = searching(images, "resnet20", backbone__width=6, space__learn="R")
    assert search.config.space.options["target"] == 0
    assert search.space.notices(search.task.signature)[0] == (
        "dnarch learns the resolutions (of the branches in 3 of 9 residual blocks) of resnet20"
    )
    network = search.space.supernet(search.start, search.task.signature)
    assert network.budget is None
    assert network.sizes().points == ((8, 8),) * 3
    assert "complexity" not in search.space.derive(search.start, network)[0].choices


def test_signals_of_other_axes_keep_their_points():
    reasons = plan_of(made("attention 2d"), IMAGES).fine
    assert "'blocks.0.mlp': its signals have 1 axes behind the channels, those of the data 2" in reasons


@pytest.mark.parametrize(("data", "backbone"), [(images, "resnet20"), (signals, "resnet")])
@pytest.mark.parametrize(("target", "count"), [(0.7, "operations"), (0.8, "memory")])
def test_targets_are_reached_and_kept(data, backbone, target, count):
    settings = {"space__target": target, "space__count": count, "backbone__width": 16, "space__learn": "RWD"}
    search = searching(data, backbone, **settings)
    network = search.space.supernet(search.start, search.task.signature)
    assert network.relative() == pytest.approx(1.0, abs=0.05)
    for by in (0.02, 0.1, 0.3):
        moved(network, search.task.signature, by)
        assert network.relative() == pytest.approx(1.0, abs=0.05)
    genotype, plain = search.space.derive(search.start, network)
    assert genotype.choices["complexity"] == pytest.approx(target, rel=0.05)
    if count == "operations":
        whole = eclose.backbones.make_backbone(backbone, search.task.signature, search.start.choices["options"])
        found, all_ = (measure_cost(each, search.task.signature, AROUND.device).flops for each in (plain, whole))
        assert found < 0.85 * all_


@pytest.mark.parametrize(("learn", "target"), [("R", 0.8), ("RWD", 0.3)])
def test_a_search_loads_exports_and_predicts(tmp_path, learn, target):
    """With its masks moved; opened again from its folder, and as a program."""
    settings = {"space.learn": learn, "space.target": target, "backbone.width": 6, "strategy.learning_rate": 0.1}
    run = Case(images, settings).run(tmp_path / "run", "dnarch", backbone="resnet20", epochs=1)
    x = torch.from_numpy(images()["x"])
    found = eclose.load(run.run)
    torch.testing.assert_close(found(x), run.model(x))
    low = [module.points(module.trained) for module in found.modules() if isinstance(module, Coarse)]
    assert min(low) < (8, 8)
    assert any("resolution" in block for block in run.genotype.choices["blocks"])
    assert np.isfinite(eclose.predict(run.run, images()["x"])["probability"]).all()
    eclose.export(run.run, tmp_path / "program", format="pt2")
    program = torch.export.load(tmp_path / "program" / "model.pt2").module()
    torch.testing.assert_close(program(x), found(x), rtol=1e-4, atol=1e-5)
    again = eclose.retrain(run.run, data=images(), epochs=1, out=tmp_path / "again", progress=False)
    assert again.genotype == run.genotype


@pytest.mark.parametrize("points", [9, 200])
def test_filters_lie_where_their_block_does(points):
    """What is cut away from a network on a GPU is computed there."""
    block = nn.Conv1d(4, 4, 3, padding=1, device="meta")
    coarse = Coarse(block, Span(("",), "", frozenset()), (points,), Resolution((0.0,), (25.0,)))
    assert [buffer.device.type for buffer in coarse.buffers()] == ["meta"]


def test_resolutions_stay_with_their_axes():
    for learn, is_free in (("R", False), ("WD", True)):
        search = searching(images, "resnet", space__learn=learn)
        before = search.task.signature
        found, _ = search.space.derive(search.start, search.space.supernet(search.start, before))
        now = replace(before, sizes=(12,))
        if is_free:
            assert search.space.carry_over(found, before, now) == found
        else:
            with pytest.raises(ConfigError, match="kernel sizes and resolutions belong to their axes"):
                search.space.carry_over(found, before, now)


def test_explained():
    search = searching(images, "resnet", backbone__width=8, space__learn="RD", space__target=0.7)
    network = search.space.supernet(search.start, search.task.signature)
    with torch.no_grad():
        network.resolutions.offset.fill_(-9.0)
        network.depth.offset.fill_(9.0)
    network.budget.strict = False
    genotype, plain = search.space.derive(search.start, network)
    (section,) = search.space.explain(genotype, plain)
    assert section.table.headings == ("block", "layer", "channels", "of", "points")
    assert [row[-1] for row in section.table.rows] == [None, None, "4 x 4 of 8 x 8"]
    assert section.drawing.nodes[3].detail.endswith("at 4 x 4")
    assert "computed" in section.table.note
    assert "its branch at 4 x 4 of 8 x 8 points" in repr(plain)


def test_a_network_whose_branches_all_keep_their_points_is_refused():
    settings = {"space__learn": "R", "backbone__width": 4}
    with pytest.raises(ConfigError, match=re.escape("has 4 x 4 points, too few to leave some out")):
        searching(lambda: {**images(), "x": images()["x"][:, :, :4, :4]}, "resnet", **settings)
