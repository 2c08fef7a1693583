"""Width and depth masks of residual networks that are no ccnn: which blocks are found, what is cut, what is refused."""

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize, prune
from torch.utils.checkpoint import checkpoint

import eclose
from eclose.engine import Search
from eclose.errors import ConfigError
from eclose.signature import Signature
from eclose.spaces.dnarch.budget import Budget
from eclose.spaces.dnarch.complexity import COUNTS, Weighing
from eclose.spaces.dnarch.cutting import Sizes, narrowed
from eclose.spaces.dnarch.own_network import Costs, MaskedNetwork, rehearse, trimmed
from eclose.spaces.dnarch.own_space import learnable, own_notices
from eclose.spaces.dnarch.residual_blocks import planned
from eclose.train import measure_cost
from eclose.train.module_hooks import Verbs
from tests.contracts.cases import AROUND, Case, fields, images, inputs, signals
from tests.spaces.dnarch.measured import kept_a_sample

IMAGES, SIGNALS = Signature("classification", 3, (6, 6), 4), Signature("classification", 3, (9,), 4)
CONV = {1: nn.Conv1d, 2: nn.Conv2d}
BATCH = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d}


class Basic(nn.Module):
    """As in many a ResNet: layers one by one, writing in place; a stride makes its shortcut a convolution."""

    def __init__(self, axes: int, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = CONV[axes](inputs, outputs, 3, stride, padding=1)
        self.norm1, self.norm2 = BATCH[axes](outputs), BATCH[axes](outputs)
        self.conv2 = CONV[axes](outputs, outputs, 3, padding=1, bias=False)
        self.relu = nn.ReLU(inplace=True)
        self.down = CONV[axes](inputs, outputs, 1, stride) if stride > 1 or inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.norm1(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        out += x if self.down is None else self.down(x)
        return self.relu(out)


class Grouped(nn.Module):
    """Before its activations, with norms of groups, a depthwise and a grouped convolution, and dropout."""

    def __init__(self, axes: int, width: int, groups: int) -> None:
        super().__init__()
        self.norm, self.wide = nn.GroupNorm(2, width), CONV[axes](width, 12, 1)
        self.inner, self.deep = nn.GroupNorm(groups, 12), CONV[axes](12, 12, 3, padding=1, groups=12)
        self.cards, self.narrow = CONV[axes](12, 12, 3, padding=1, groups=6), CONV[axes](12, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.gelu(self.inner(self.wide(F.relu(self.norm(x)))))
        y = F.silu(self.cards(torch.tanh(self.deep(y))))
        return x + F.dropout(self.narrow(y), 0.1, self.training)


class Last(nn.Module):
    """Channels last: linear layers at every point, with a gain of its own for the branch."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 10), nn.Linear(10, width)
        self.gain = nn.Parameter(torch.full((width,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        y = x.movedim(1, -1)
        y = self.gain * self.down(F.gelu(self.up(self.norm(y))))
        return x + y.movedim(-1, 1)


class Network(nn.Module):
    """Stem, blocks, head; branches that are modules are added by the network itself."""

    def __init__(self, axes: int, width: int, *blocks: nn.Module, added: bool = False) -> None:
        super().__init__()
        self.stem, self.added = CONV[axes](3, width, 3, padding=1), added
        self.blocks, self.head = nn.ModuleList(blocks), nn.LazyLinear(4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x) if self.added else block(x)
        y: Tensor = self.head(x.flatten(2).mean(2))
        return y


class Attention(nn.Module):
    """A branch that is given more than ``x``, and one behind a norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.look = nn.LayerNorm(width), nn.MultiheadAttention(width, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 10), nn.GELU(), nn.Dropout(0.1), nn.Linear(10, width))

    def forward(self, x: Tensor) -> Tensor:
        y = x.flatten(2).transpose(1, 2)
        seen = self.norm(y)
        y = y + self.look(seen, seen, seen, need_weights=False)[0]
        y = y + self.mlp(self.norm(y))
        return y.transpose(1, 2).reshape(x.shape)


class Written(nn.Module):
    """Adds to what it is given, in place; nothing keeps that for the way back."""

    def __init__(self, axes: int, width: int) -> None:
        super().__init__()
        self.one, self.two = CONV[axes](width, 9, 3, padding=1), CONV[axes](9, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        x += self.two(F.gelu(self.one(torch.tanh(x))))
        return x


class Normed(nn.Module):
    """A branch whose first weights are computed from others."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.one = nn.utils.parametrizations.weight_norm(nn.Conv2d(width, 7, 3, padding=1))
        self.two = nn.Conv2d(7, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.two(F.gelu(self.one(x)))


def branch(width: int) -> nn.Module:
    return nn.Sequential(
        nn.BatchNorm1d(width), nn.ReLU(), nn.Conv1d(width, 9, 3, padding=1), nn.ELU(), nn.Conv1d(9, width, 1)
    )


def made(name: str) -> nn.Module:
    torch.manual_seed(0)
    axes = 1 if "1d" in name else 2
    network = {
        "basic": lambda: Network(axes, 8, *(Basic(axes, 8, 8) for _ in range(3))),
        "strided": lambda: Network(axes, 8, Basic(axes, 8, 8), Basic(axes, 8, 12, 2), Basic(axes, 12, 12)),
        "projected": lambda: Network(axes, 8, Basic(axes, 8, 12, 2), Basic(axes, 12, 16, 2)),
        "grouped": lambda: Network(axes, 6, *(Grouped(axes, 6, 4) for _ in range(2))),
        "last": lambda: Network(axes, 6, *(Last(6) for _ in range(3))),
        "attention": lambda: Network(axes, 6, Attention(6), Attention(6)),
        "written": lambda: Network(axes, 6, Written(axes, 6), Written(axes, 6)),
        "single": lambda: Network(1, 6, branch(6), nn.Conv1d(6, 6, 3, padding=1), nn.Conv1d(6, 6, 1), added=True),
        "normed": lambda: Network(axes, 6, Normed(6), Normed(6)),
        "added": lambda: Network(1, 6, branch(6), branch(6), added=True),
    }[name.partition(" ")[0]]()
    with torch.no_grad():
        network.eval()(torch.zeros(1, *signature_of(name).input_shape(1)[1:]))
    return network.train()


def signature_of(name: str) -> Signature:
    return SIGNALS if "1d" in name or name == "added" else IMAGES


NETWORKS = [
    "basic 1d",
    "basic 2d",
    "strided 1d",
    "strided 2d",
    "grouped 1d",
    "grouped 2d",
    "last 1d",
    "last 2d",
    "added",
    "single 1d",
    "written 1d",
]


def masked(
    network: nn.Module, signature: Signature, learn: str = "", target: float = 0.6, step: int = 1
) -> MaskedNetwork:
    plan = planned(network, inputs(signature, 1))
    learn = learnable(plan, learn, "yours")
    temperatures = {"width": 25.0, "depth": 8.0}
    weighing = COUNTS["operations"]
    made = MaskedNetwork(
        network, plan, learn=learn, temperatures=temperatures, learn_temperature=False, step=step, weighing=weighing
    )
    rehearse(made, inputs(signature))
    made.keep_to(Budget(target * made.costs.of(Sizes.whole(plan)), penalty=0.1))
    return made


@torch.no_grad()
def moved(network: MaskedNetwork, signature: Signature, by: float = 0.1) -> MaskedNetwork:
    """Masks and weights somewhere else, statistics of some batches."""
    torch.manual_seed(1)
    for parameter in network.parameters():
        parameter.add_(by * torch.randn_like(parameter))
    Verbs(network).after_step()
    for _ in range(3):
        network.train()(inputs(signature, 8))
    return network


def size_of(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize("name", NETWORKS)
def test_a_trimmed_network_is_plain_smaller_and_equal(name):
    signature = signature_of(name)
    network = moved(masked(made(name), signature), signature).eval()
    plain, x = trimmed(network), inputs(signature, 5)
    torch.testing.assert_close(plain(x), network(x), rtol=1e-5, atol=1e-5)
    assert size_of(plain) < 0.85 * size_of(network)
    assert type(plain) is Network
    sizes = [layer.out_channels for layer in plain.modules() if isinstance(layer, nn.Conv1d | nn.Conv2d)]
    assert all(
        layer.weight.shape[0] == size
        for layer, size in zip(
            (each for each in plain.modules() if isinstance(each, nn.Conv1d | nn.Conv2d)), sizes, strict=True
        )
    )
    plain.train()(x).sum().backward()


def test_a_training_may_use_what_an_inference_has_made():
    network, x = masked(made("strided 2d"), IMAGES), inputs(IMAGES)
    network._lines.clear()
    with torch.inference_mode():
        network(x)
    network(x).square().sum().backward()
    assert all(table.offset.grad.any() for table in network.tables().values())


@pytest.mark.parametrize("name", NETWORKS)
def test_what_was_cut_is_what_the_whole_mask_would_be(name):
    """Values and gradients of virtual masks, as in the paper: all computed, then multiplied by zero."""
    signature = signature_of(name)
    cut, whole = (moved(masked(made(name), signature, step=step), signature) for step in (1, 4))
    with torch.no_grad():
        for network in (cut, whole):
            network.depth.offset.fill_(0.1)
            network.depth.clamp()
    whole.virtual = True
    assert not all(cut.sizes().open)
    assert any(cut.sizes().open)
    x = inputs(signature, 5)
    for network in (cut, whole):
        network.eval()(x).square().sum().backward()
    torch.testing.assert_close(cut(x), whole(x), rtol=1e-4, atol=1e-5)
    assert cut.widths.offset.grad.abs().max() > 0
    for (part, one), other in zip(cut.named_parameters(), whole.parameters(), strict=True):
        if one.grad is not None:
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-3, atol=1e-4, msg=part)


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_reach_all_sizes(name):
    signature = signature_of(name)
    network = moved(masked(made(name), signature), signature, 0.03)
    network(inputs(signature, 6)).square().sum().backward()
    assert all(table.offset.grad.abs().max() > 0 for table in (network.widths, network.depth))
    for table in (network.widths, network.depth):
        table.offset.grad = None
    network.cost(network.offsets()).backward()
    for table in (network.widths, network.depth):  # what is skipped costs nothing
        assert (table.offset.grad >= 0).all()
        assert (table.offset.grad > 0).any()


@pytest.mark.parametrize("name", NETWORKS)
def test_costs_are_those_of_the_network_that_is_left(name):
    """Parameters and products of the formulas are those that are counted on the trimmed network."""
    signature = signature_of(name)
    network = moved(masked(made(name), signature), signature, 0.3)
    plain, plan = trimmed(network).eval(), network.plan
    fresh = made(name)
    counted = measure_cost(plain, signature, AROUND.device)
    assert Costs(plan, fresh, COUNTS["parameters"]).of(network.sizes()) == pytest.approx(counted.parameters, rel=1e-9)
    assert Costs(plan, fresh, Weighing(products=1.0)).of(network.sizes()) == pytest.approx(counted.flops / 2, rel=1e-9)
    assert float(network.cost(network.offsets()).detach()) == pytest.approx(network.costs.of(network.sizes()))


KEEPING = [*NETWORKS, "attention 2d", "projected 2d", "normed 2d"]


@pytest.mark.parametrize("name", KEEPING)
@pytest.mark.parametrize(("part", "is_open"), [(1.0, True), (0.5, True), (1.0, False)])
def test_memory_is_what_autograd_keeps(name, part, is_open):
    """Of the network itself, with fewer channels, without its blocks: factors of dropout and what layers share, too."""
    signature = signature_of(name)
    plan = planned(network := made(name), inputs(signature, 1))
    cost = Costs(plan, network, COUNTS["memory"])
    widths = tuple(max(1, int(part * width.channels / width.unit)) * width.unit for width in plan.widths)
    sizes = Sizes(widths, tuple(is_open or block.closing is None for block in plan.blocks))
    assert cost.of(sizes) == pytest.approx(kept_a_sample(narrowed(network, plan, sizes), signature), rel=1e-6)


@pytest.mark.parametrize("name", ["basic 1d", "basic 2d", "grouped 2d", "last 1d", "added", "single 1d"])
def test_a_depth_mask_of_zero_is_the_identity(name):
    signature = signature_of(name)
    network = masked(made(name), signature, "D", target=0.9).eval()
    with torch.no_grad():
        network.depth.offset.fill_(-9.0)
        network.depth.clamp()
    assert network.sizes().open == (False,) * len(network.plan.blocks)
    own, x = made(name).eval(), inputs(signature, 4)
    y = own.stem(x)
    wanted = own.head((F.relu(y) if "basic" in name else y).flatten(2).mean(2))
    torch.testing.assert_close(network(x), wanted)
    plain = trimmed(network)
    torch.testing.assert_close(plain(x), wanted)
    assert size_of(plain) == size_of(own.stem) + size_of(own.head)


def test_the_whole_network_is_found_in_order():
    plan = planned(made("strided 2d"), inputs(IMAGES, 1))
    assert [block.name for block in plan.blocks] == ["blocks.0", "blocks.1", "blocks.2"]
    assert [block.closing and block.closing.last for block in plan.blocks] == ["blocks.0.norm2", None, "blocks.2.norm2"]
    assert plan.blocks[1].why_open == "its shortcut is no identity"
    assert plan.stages == [[0], [2]]  # of other shapes
    assert [(width.maker, width.channels) for width in plan.widths] == [
        *(("blocks.0.conv1", 8), ("blocks.1.conv1", 12), ("blocks.2.conv1", 12))
    ]


def test_masks_go_into_norms_where_nothing_behind_them_minds():
    """A vector is multiplied, not a matrix; where an activation is no ReLU, the columns of what reads are."""
    assert {width.gain for width in planned(made("basic 2d"), inputs(IMAGES, 1)).widths} == {
        *("blocks.0.norm1", "blocks.1.norm1", "blocks.2.norm1")
    }
    for name in ("grouped 2d", "last 2d", "added"):
        assert {width.gain for width in planned(made(name), inputs(signature_of(name), 1)).widths} == {""}


def test_branches_that_are_modules_need_not_be_given_x_itself():
    plan = planned(made("attention 2d"), inputs(IMAGES, 1))
    assert [block.name for block in plan.blocks] == ["blocks.0", "blocks.0.mlp", "blocks.1", "blocks.1.mlp"]
    assert plan.stages == [[1, 3]]
    assert plan.blocks[0].why_open == "its branch ends in multi_head_attention_forward, behind its last layer"
    network, x = moved(masked(made("attention 2d"), IMAGES, target=0.9), IMAGES).eval(), inputs(IMAGES, 4)
    torch.testing.assert_close(trimmed(network)(x), network(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("axes", [1, 2])
def test_strided_blocks_have_widths_only(axes):
    name = f"projected {axes}d"
    signature = signature_of(name)
    network = masked(made(name), signature)
    assert network.depth is None
    assert network.widths.offset.shape == (2,)
    moved(network, signature).eval()
    x = inputs(signature, 4)
    torch.testing.assert_close(trimmed(network)(x), network(x), rtol=1e-5, atol=1e-5)
    assert network.relative() == pytest.approx(1.0, abs=0.05)
    with pytest.raises(
        ConfigError, match="space.learn has D, but no block of 'yours' can be skipped: 'blocks.0': its short"
    ):
        masked(made(name), signature, "WD")


def test_channels_of_a_group_go_together():
    network = masked(made("grouped 2d"), IMAGES)
    plan = network.plan
    assert [width.unit for width in plan.widths] == [6, 6]  # 4 groups of 3 channels, and 6 of 2
    notices = own_notices(plan, "yours", {"learn": "WD", "count": "operations", "target": 0.5})
    assert notices[0] == (
        "dnarch learns the widths of 2 layers and the depth (2 of 2 residual blocks can be skipped) of yours; by its "
        "operations it costs 0.5 times yours as it is"
    )
    assert notices[-1] == (
        "channels that share a group go together: those of 'blocks.0.wide' by 6; those of 'blocks.1.wide' by 6"
    )
    for offset, size in ((-9.0, 6), (0.2, 6), (9.0, 12)):
        with torch.no_grad():
            network.widths.offset.fill_(offset)
        network.widths.clamp()
        assert network.sizes().widths == (size, size)


def test_a_norm_over_all_channels_keeps_them():
    network = Network(2, 6, Grouped(2, 6, 1))
    network(inputs(IMAGES, 1))
    plan = planned(network, inputs(IMAGES, 1))
    assert plan.kept == (
        "'blocks.0.wide' keeps its 12 channels: 'blocks.0.inner' (GroupNorm) has them all in one group: of several "
        "groups some could go",
    )
    assert plan.widths == ()
    with pytest.raises(
        ConfigError, match=re.escape("space.learn has W, but 'yours' has no widths to learn: 'blocks.0.w")
    ):
        learnable(plan, "W", "yours")
    assert learnable(plan, "", "yours") == "D"


PARAMETRIZED = "computes its weights from others (undo that by torch.nn.utils.parametrize.remove_parametrizations)"
HOOKED = "computes its weights from others (undo that by torch.nn.utils.remove_weight_norm or the like)"


@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated:FutureWarning")
@pytest.mark.parametrize(
    ("compute", "why"),
    [
        (nn.utils.parametrizations.weight_norm, PARAMETRIZED),
        (nn.utils.parametrizations.spectral_norm, PARAMETRIZED),
        (nn.utils.weight_norm, HOOKED),
        (lambda layer: prune.l1_unstructured(layer, "weight", 0.3), HOOKED),
    ],
)
@pytest.mark.parametrize("places", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize(("block", "layers", "channels"), [(Last, ("up", "down"), 10), (Written, ("one", "two"), 9)])
def test_layers_that_compute_their_weights_keep_their_channels(block, layers, channels, places, compute, why):
    network = Network(2, 6, Last(6) if block is Last else Written(2, 6))
    computing = [f"blocks.0.{layers[place]}" for place in places]
    for path in computing:
        compute(network.get_submodule(path))
    network(inputs(IMAGES, 1))
    plan = planned(network, inputs(IMAGES, 1))
    assert plan.widths == ()
    assert plan.kept[0] == f"'blocks.0.{layers[0]}' keeps its {channels} channels: '{computing[0]}' {why}"
    assert [each.why_open for each in plan.blocks] == [f"'{computing[-1]}' {why}" if 1 in places else ""]
    if 1 in places:
        with pytest.raises(ConfigError, match="nothing in 'yours' can be masked: .*computes its weights from others"):
            learnable(plan, "", "yours")
    if why == PARAMETRIZED:
        for path in computing:
            parametrize.remove_parametrizations(network.get_submodule(path), "weight")
        assert masked(network, IMAGES, "WD").widths.offset.shape == (1,)


class Odd(nn.Module):
    """A block whose ``kind`` says what is odd about it."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.one, self.two = kind, nn.Conv2d(4, 6, 1), nn.Conv2d(6, 4, 1)
        self.gate = nn.Conv2d(4, 6, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.one(x)
        if self.kind == "gated":
            y = y * self.gate(x)
        if self.kind == "turned":
            y = y.flip(1)
        if self.kind == "twice":
            y = y + self.one(x)
        z = self.two(y)
        return x + (F.gelu(z) if self.kind == "ended" else z)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("gated", "'blocks.0.one' keeps its 6 channels: mul in 'blocks.0' joins them with others"),
        ("turned", "'blocks.0.one' keeps its 6 channels: flip in 'blocks.0' may do something else with them"),
        ("twice", "'blocks.0.one' keeps its 6 channels: 'blocks.0.one' runs 2 times"),
        ("ended", "its branch ends in gelu, behind its last layer"),
    ],
)
def test_what_stands_in_the_way_is_said(kind, why):
    network = Network(2, 4, Odd(kind))
    network(inputs(IMAGES, 1))
    plan = planned(network, inputs(IMAGES, 1))
    assert why in {*plan.kept, *(block.why_open for block in plan.blocks)}


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace.*:DeprecationWarning")
def test_layers_that_cannot_be_seen_are_refused():
    traced = torch.jit.trace(made("basic 2d").eval(), inputs(IMAGES, 1))
    with pytest.raises(ConfigError, match="has a torch.jit.ScriptModule, whose layers cannot be seen: hand in"):
        planned(traced, inputs(IMAGES, 1))


def test_code_that_reads_channels_is_refused():
    class Reads(Basic):
        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x)
            return y * (self.norm1.weight.shape[0] / 8)

    network = Network(2, 8, Reads(2, 8, 8))
    network(inputs(IMAGES, 1))
    with pytest.raises(ConfigError, match="with fewer channels or blocks, the network is another function"):
        masked(network, IMAGES)


class Weighed(Odd):
    """A block that is given a number, too."""

    def forward(self, x: Tensor, weight: float = 1.0) -> Tensor:
        return x + weight * self.two(F.gelu(self.one(x)))


@pytest.mark.parametrize("given", [((0.5,), {}), ((), {"weight": 0.5})])
def test_a_block_that_is_given_something_else_cannot_be_skipped(given):
    class Weighing(Network):
        def forward(self, x: Tensor) -> Tensor:
            args, named = given
            return self.head(self.blocks[0](self.stem(x), *args, **named).flatten(2).mean(2))

    network = Weighing(2, 4, Weighed(""))
    network(inputs(IMAGES, 1))
    found = masked(network, IMAGES)
    assert not found.stages
    assert [block.why_open for block in found.plan.blocks] == [
        "it is no module of its own that is given x alone: put it, or its branch, into one"
    ]


def test_norms_of_single_samples_are_cut():
    layers = nn.Conv2d(4, 6, 1), nn.InstanceNorm2d(6, affine=True), nn.ReLU(), nn.Conv2d(6, 4, 1)
    network = Network(2, 4, nn.Sequential(*layers), added=True)
    network(inputs(IMAGES, 1))
    found = masked(network, IMAGES, "W", 0.8)
    small, x = trimmed(found), inputs(IMAGES, 2)
    assert small.blocks[0][1].num_features == found.sizes().widths[0] < 6
    torch.testing.assert_close(small.eval()(x), found.eval()(x))


def test_layers_that_run_again_on_the_way_back_are_refused():
    class Again(Basic):
        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(super().forward, x, use_reentrant=False)

    network = Network(2, 8, Again(2, 8, 8))
    network(inputs(IMAGES, 1))
    with pytest.raises(ConfigError, match=r"runs layers again on the way back \(torch.utils.checkpoint\)"):
        masked(network, IMAGES)


def test_what_else_fails_in_training_is_told_by_the_checks_of_a_training():
    class Fails(Network):
        def forward(self, x: Tensor) -> Tensor:
            if self.training:
                raise IndexError("only in training")
            return super().forward(x)

    network = Fails(2, 8, Basic(2, 8, 8)).eval()
    network(inputs(IMAGES, 1))
    masked(network, IMAGES)


def searching(data: Any, backbone: str, **settings: Any) -> Search:
    given = {name.replace("__", "."): value for name, value in settings.items()}
    return Case(data, {"backbone.name": backbone, **given}).search(space="dnarch")


@pytest.mark.parametrize(("data", "backbone"), [(images, "resnet20"), (signals, "resnet"), (fields, "tcn")])
@pytest.mark.parametrize(("target", "count"), [(0.5, "operations"), (0.7, "parameters"), (0.6, "memory")])
def test_targets_are_reached_and_kept(data, backbone, target, count):
    search = searching(data, backbone, space__target=target, space__count=count, backbone__width=16)
    network = search.space.supernet(search.start, search.task.signature)
    assert network.relative() == pytest.approx(1.0, abs=0.05)
    for by in (0.02, 0.1, 0.3):
        moved(network, search.task.signature, by)
        assert network.relative() == pytest.approx(1.0, abs=0.05)
    genotype, _ = search.space.derive(search.start, network)
    assert genotype.choices["complexity"] == pytest.approx(target, rel=0.05)


def test_half_of_the_cost_by_default():
    search = searching(images, "resnet20")
    assert search.config.space.options["target"] == 0.5
    assert search.config.space.options["learn"] == "WD"
    network = search.space.build(search.start, search.task.signature)
    whole = eclose.backbones.make_backbone("resnet20", search.task.signature, {})
    found, all_ = (measure_cost(each, search.task.signature, AROUND.device).flops for each in (network, whole))
    assert found == pytest.approx(0.5 * all_, rel=0.05)


def test_latency_is_measured_on_the_network_itself():
    search = searching(images, "resnet", space__count="latency", space__target=0.9, backbone__width=8)
    assert len(search.config.space.options["weighing"]) == len(Weighing())
    network = search.space.supernet(search.start, search.task.signature)
    assert network.relative() == pytest.approx(1.0, abs=0.05)


REFUSED = [
    (
        "resnet",
        {"space__learn": "KRWD"},
        "space.learn is 'KRWD', but 'resnet' has no continuous kernels, whose sizes (K) could be learned: "
        "set space.learn=RWD, or leave out --backbone",
    ),
    (
        "lenet",
        {},
        "'lenet' has no residual block whose sizes could be learned: tracing it saw 5 layers ('0' (Conv2d); "
        "'3' (Conv2d); '7' (Linear); '9' (Linear); '11' (Linear)), and no sum of a signal and what layers make of it "
        "(x + branch(x)); give a residual network, such as --backbone resnet, or leave out --backbone",
    ),
    ("cnn", {}, "nothing in 'cnn' can be masked: 'blocks.0': its shortcut is no identity"),
    ("resnet", {"space__largest": 3.0}, "space.largest is 3.0, but is for ccnn only: leave it out for 'resnet'"),
    ("resnet", {"space__learn_mean": True}, "space.learn_mean is True, but is for ccnn only"),
    ("resnet", {"space__target": 0.01}, "space.target is 0.01, but the nearest that these masks reach is 0."),
    ("resnet", {"space__target": 0.01}, "times the cost of the backbone: choose that, or give a smaller --backbone"),
    ("resnet", {"space__target": 3.0}, "choose that, or give a larger --backbone"),
    ("resnet", {"space__target": 3.0, "space__learn": "W"}, "choose that, or give a larger --backbone"),
    ("resnet", {"space__target": 0.1, "space__learn": "D"}, "choose that, or learn more sizes (space.learn=WD)"),
]


@pytest.mark.parametrize(("backbone", "settings", "says"), REFUSED)
def test_what_is_refused(backbone, settings, says):
    def network():
        search = searching(images, backbone, **settings)
        return search.space.supernet(search.start, search.task.signature)

    with pytest.raises(ConfigError, match=re.escape(says)):
        network()


def test_explained():
    search = searching(images, "resnet", backbone__width=8)
    network = search.space.supernet(search.start, search.task.signature)
    with torch.no_grad():
        network.depth.offset.fill_(-9.0)
    network.budget.strict = False
    genotype, plain = search.space.derive(search.start, network)
    (section,) = search.space.explain(genotype, plain)
    assert section.sentences[0] == "It is resnet: of its 3 residual blocks, 1 was skipped."
    assert "the target was 0.5." in section.sentences[1]
    assert section.table.headings == ("block", "layer", "channels", "of")
    assert section.table.rows[-1] == ("2", "skipped", None, 16)
    assert [node.kind for node in section.drawing.nodes] == ["ends", "block", "block", "closed", "ends"]


CODE = """
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.one, self.two = nn.Conv1d(width, 16, 3, padding=1), nn.Conv1d(16, width, 3, padding=1)

    def forward(self, x):
        return x + self.two(self.one(x).relu())

def make(signature):
    blocks = [Block(8), Block(8)]
    return nn.Sequential(nn.Conv1d(signature.channels, 8, 1), *blocks, nn.Flatten(), nn.LazyLinear(signature.outputs))
"""


def test_a_network_of_the_users_own(tmp_path, monkeypatch):
    """Named as code: searched, opened again from its folder, retrained; refused where its code has changed."""
    (tmp_path / "own_residual.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    run = Case(signals, {"space.target": 0.6}).run(tmp_path / "run", "dnarch", backbone="own_residual:make", epochs=1)
    x = signals()["x"]
    found = eclose.load(run.run)
    torch.testing.assert_close(found(torch.from_numpy(x)), run.model(torch.from_numpy(x)))
    widths = [size for block in run.genotype.choices["blocks"] for size in block["widths"].values()]
    kept = [layer.out_channels for path, layer in found.named_modules() if path.endswith("one")]
    assert kept == [n for n, block in zip(widths, run.genotype.choices["blocks"], strict=True) if block["open"]]
    assert max(kept) < 16
    assert np.isfinite(eclose.predict(run.run, x)["probability"]).all()
    again = eclose.retrain(run.run, data=signals(), epochs=1, out=tmp_path / "again", progress=False)
    assert again.genotype == run.genotype
