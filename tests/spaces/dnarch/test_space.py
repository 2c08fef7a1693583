"""The space ``dnarch``: masks at the start, within their budget, and cut away in the end."""

import itertools
import re
import tomllib
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import eclose
from eclose.backbones.ccnn import CCNN
from eclose.backbones.ccnn_block import BlockShape
from eclose.config import from_dict
from eclose.engine import Search, complete
from eclose.engine.supernet import Supernet
from eclose.errors import ConfigError, TaskError, Unsuited
from eclose.ops.continuous import SIREN
from eclose.ops.masks import gaussian, places, product, sigmoid
from eclose.signature import Signature
from eclose.spaces.dnarch.complexity import BlockSizes, Weighing, complexity, terms, weighing_of
from eclose.spaces.dnarch.latency import _not_negative, fitted
from eclose.spaces.dnarch.network import MaskedCCNN
from eclose.spaces.genotype import Genotype
from eclose.train import Training, measure_cost
from eclose.train.module_hooks import Verbs
from tests.contracts.cases import AROUND, Case, fields, images, inputs, rows, signals, words
from tests.spaces.dnarch.measured import kept_a_sample

CPU = torch.device("cpu")
IMAGES = torch.randn(64, 1, 8, 8)
SMALL = {"backbone.width": 8, "backbone.blocks": 2, "backbone.hidden": 8}


def searching(data: Any = signals, **settings: Any) -> Search:
    given = {name.replace("__", "."): value for name, value in settings.items()}
    return Case(data, {**SMALL, **given}).search(space="dnarch")


def supernet(search: Search, seed: int = 0) -> MaskedCCNN:
    torch.manual_seed(seed)
    return search.space.supernet(search.start, search.task.signature)


@torch.no_grad()
def moved(network: nn.Module, by: float, seed: int = 0) -> nn.Module:
    """Masks and weights somewhere else, statistics of some batches."""
    torch.manual_seed(seed)
    for parameter in network.parameters():
        parameter.add_(by * torch.randn_like(parameter))
    Verbs(network).after_step()
    for _ in range(3):
        network(torch.randn(8, network.signature.channels, *network.signature.sizes))
    return network


@pytest.mark.parametrize("learn", ["K", "R", "W", "D", "KR", "WD", "KRWD"])
def test_any_sizes_can_be_learned(learn):
    search = searching(images, space__learn=learn)
    network = supernet(search)
    tables = {"K": network.kernels, "R": network.resolutions, "W": network.widths, "D": network.depth}
    assert {letter for letter, table in tables.items() if table is not None} == set(learn)
    assert (network.budget is not None) == bool(set(learn) & set("WD"))
    assert len(network.blocks) == (4 if "D" in learn else 2)
    assert network.width == (16 if "W" in learn else 8)


def test_the_start_is_the_backbone():
    network = supernet(searching(images))
    shapes = network.shapes()
    assert [shape.widths for shape in shapes] == [(8, 8, 8)] * 2
    grids = [network.blocks[0].grid((8, 8), shape) for shape in shapes]
    assert [(grid.points, grid.taps) for grid in grids] == [((8, 8), (9, 9))] * 2
    assert network.relative() == 1.0


@pytest.mark.parametrize("target", [0.5, 0.8, 1.0, 1.7])
def test_the_cost_at_the_start_is_the_target(target):
    network = supernet(searching(images, space__target=target, backbone__width=16))
    assert network.relative() == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("count", ["operations", "parameters", "memory"])
def test_every_count_is_met(count):
    network = supernet(searching(images, space__target=0.6, space__count=count, backbone__width=16))
    assert network.relative() == pytest.approx(1.0, abs=0.03)
    moved(network, 0.1)
    assert network.relative() == pytest.approx(1.0, abs=0.05)


def test_latency_is_measured_once():
    """A run writes down what it has measured, and for how many samples: resumed, it has the same target."""
    search = searching(signals, space__count="latency")
    weighing = search.config.space.options["weighing"]
    assert search.config.space.options["latency_batch"] == search.config.train.batch == 8
    assert len(weighing) == len(Weighing())
    assert min(weighing) >= 0 < max(weighing)
    assert search.start.choices["masks"]["weighing"] == list(weighing)
    assert complete(from_dict(tomllib.loads(search.config.to_toml())), search.task) == search.config
    assert supernet(search).relative() == pytest.approx(1.0, abs=0.05)


TIMES = Weighing(products=3e-6, transforms=2e-5, values=1e-5, blocks=0.25)  # milliseconds


def test_times_are_taken_apart():
    """Blocks that take what their products, transforms and values do: these are found again."""
    torch.manual_seed(0)
    points, widths = torch.randint(8, 500, (20,)).double(), torch.randint(4, 40, (20, 3)).double()
    rows = terms(points, widths, 8)
    times = (rows @ torch.tensor(TIMES[:7], dtype=torch.float64)).tolist()
    torch.testing.assert_close(torch.tensor(fitted(rows, times)), torch.tensor(TIMES), rtol=1e-4, atol=1e-9)
    rows[:, [3, 5, 6]] = 7.0  # parameters, and what only memory counts: a time must not be told by them
    torch.testing.assert_close(torch.tensor(fitted(rows, times)), torch.tensor(TIMES), rtol=1e-4, atol=1e-9)


def test_what_is_timed_is_what_is_computed(monkeypatch):
    """One signal of a pair, its generator, the precision of the training; times that follow a formula give it back."""
    blocks, ends = [], []

    def measured(network, x, precision):
        if isinstance(network, CCNN):
            ends.append((network.encoder.out_features, x.shape, precision))
            return 0.5 * network.encoder.out_features  # of both signals
        blocks.append((type(network.trunk), len(x), x.shape[2:], precision, torch.get_num_threads()))
        a, b, c = network.block.shape.widths
        (points,) = network.block.grid(x.shape[2:]).points
        products, transforms, values = points * b * (a + c), points * np.log2(points) * a, points * (a + 2 * b + c)
        return TIMES.products * products + TIMES.transforms * transforms + TIMES.values * values + TIMES.blocks

    monkeypatch.setattr("eclose.spaces.dnarch.latency.measure_latency", measured)
    settings = {"backbone__pair": True, "backbone__generator": "siren", "train__precision": "bfloat16"}
    search = searching(signals, space__count="latency", space__latency_batch=12, **settings)
    assert set(blocks) == {(SIREN, 12, (4,), "bfloat16", 1)}
    assert ends == [(16, (12, 2, 8), "bfloat16"), (8, (12, 2, 8), "bfloat16")]
    found = torch.tensor(search.start.choices["masks"]["weighing"])
    torch.testing.assert_close(found, torch.tensor(TIMES._replace(ends=4.0, backbone_ends=2.0)))


@pytest.mark.parametrize(("batch", "wanted"), [({}, 8), ({"space__latency_batch": 3}, 3)])
@pytest.mark.parametrize("backbone", ["ccnn", "resnet"])
def test_latency_is_that_of_so_many_samples(monkeypatch, batch, wanted, backbone):
    """Those of a training step, unless somebody says: networks that are timed are given as many, and it is told."""
    seen = []

    def measured(network, x, precision):
        seen.append(len(x))
        return float(len(seen))

    for file in ("latency", "own_space"):
        monkeypatch.setattr(f"eclose.spaces.dnarch.{file}.measure_latency", measured)
    options = {} if backbone == "ccnn" else {"backbone.hidden": None, "backbone.blocks": None}
    given = {name: value for name, value in {**SMALL, **options}.items() if value is not None}
    given |= {
        "backbone.name": backbone,
        "space.count": "latency",
        **{k.replace("__", "."): v for k, v in batch.items()},
    }
    search = Case(images, given).search(space="dnarch")
    assert set(seen) == {wanted}
    assert (
        f"by its latency (predictions of {wanted} at once) it costs" in search.space.notices(search.task.signature)[0]
    )
    found = Genotype("dnarch", {"complexity": 2.0, "target": 1.0, "count": "latency", "latency_batch": wanted})
    assert search.space.remark(found).startswith(f"by its latency (predictions of {wanted} at once) it costs 2 times")


def test_what_was_found_says_for_which_batch_its_latency_holds():
    search = searching(signals, space__count="latency", space__latency_batch=5)
    genotype, network = search.space.derive(search.start, supernet(search))
    (section,) = search.space.explain(genotype, network)
    assert any(each.startswith("By its latency (predictions of 5 at once) it costs") for each in section.sentences)


def test_a_model_of_costs_finds_the_costs_back():
    torch.manual_seed(0)
    rows = torch.rand(20, 5, dtype=torch.float64)
    rows[:, 3] = 0.0
    wanted = torch.tensor([2.0, 0.0, 1.0, 0.0, 3.0], dtype=torch.float64)
    torch.testing.assert_close(_not_negative(rows, rows @ wanted), wanted)
    assert (_not_negative(rows, -rows @ wanted) == 0).all()


@pytest.mark.parametrize("seed", range(3))
def test_the_budget_is_kept_wherever_masks_go(seed):
    network = supernet(searching(images, backbone__width=16))
    for by in (0.02, 0.1, 0.5):
        assert moved(network, by, seed).relative() == pytest.approx(1.0, abs=0.05)


def test_without_strictness_there_is_the_loss_alone():
    network = supernet(searching(images, space__strict=False, space__penalty=2.0))
    with torch.no_grad():
        network.widths.offset.sub_(0.5)
    Verbs(network).after_step()
    relative = network.relative()
    assert relative < 0.8
    torch.testing.assert_close(network.extra_loss().detach(), torch.tensor(2.0 * (relative - 1) ** 2))
    network.extra_loss().backward()
    assert (network.widths.offset.grad[:2] < 0).all()  # they are to become wider


def test_the_loss_is_a_tenth_unless_somebody_says():
    """The lambda of most data sets in table 6: twice the cost adds 0.1 to the loss."""
    budget = supernet(searching(images)).budget
    loss, slope = budget.loss(2 * budget.goal)
    assert loss == pytest.approx(0.1, rel=1e-6)
    assert slope * budget.goal == pytest.approx(0.2, rel=1e-6)
    budget.epochs = 30.0
    assert budget.loss(2 * budget.goal)[0] == pytest.approx(0.1, rel=1e-6)  # it does not grow


def test_the_gradient_of_the_cost_follows_every_axis():
    """Also where a block keeps its number of points, 4 x 8 and then 8 x 4."""
    network, again = (supernet(searching(images, space__strict=False)) for _ in range(2))

    def gradient(masked, *offsets):
        with torch.no_grad():
            masked.resolutions.offset[0] = torch.tensor(offsets)
        (found,) = torch.autograd.grad(masked.extra_loss(), masked.resolutions.offset)
        assert masked.sizes(masked.offsets_on_host()).points[0] == 4 * 8
        return found

    before = gradient(network, -0.3, 0.9)
    after = gradient(network, 0.9, -0.3)
    assert torch.equal(after, gradient(again, 0.9, -0.3))
    assert torch.equal(after[0], before[0].flip(0))
    assert after[0, 0] != after[0, 1]


def test_lambda_can_grow():
    network = supernet(searching(images, space__growth=100.0, space__strict=False, train__epochs=4))
    with torch.no_grad():
        network.widths.offset.sub_(0.5)
    losses = []
    for epochs in (0.0, 2.0, 4.0, 9.0):
        network.before_step(epochs)
        losses.append(network.extra_loss().item())
    torch.testing.assert_close(torch.tensor(losses) / losses[0], torch.tensor([1.0, 10.0, 100.0, 100.0]))


CASES = [
    (images, {}),
    (images, {"space__step": 4, "backbone__dropout": 0.1}),
    (fields, {}),
    (signals, {"space__learn": "KWD", "backbone__causal": True, "space__learn_mean": True}),
    (signals, {"backbone__generator": "magnet", "space__learn_temperature": True}),
    (signals, {"backbone__pair": True, "backbone__generator": "siren", "space__learn": "KR"}),
]


@pytest.mark.parametrize(("data", "settings"), CASES)
def test_a_trimmed_network_is_plain_smaller_and_equal(data, settings):
    search = searching(data, **settings)
    masked = moved(supernet(search), 0.1).eval()
    genotype, plain = search.space.derive(search.start, masked)
    assert type(plain) is CCNN
    x = inputs(search.task.signature, 5)
    torch.testing.assert_close(plain(x), masked(x), rtol=1e-5, atol=1e-5)
    size = lambda network: sum(p.numel() for p in network.parameters())  # noqa: E731
    if "space__learn" not in settings:
        assert size(plain) < 0.8 * size(masked)
    assert len(plain.blocks) == len(genotype.choices["blocks"]) == len(masked.shapes())


@pytest.mark.parametrize("data", [signals, images])
def test_kernels_that_are_not_learned_keep_the_size_of_the_backbone(data):
    search = searching(data, backbone__kernel=0.2, space__learn="RWD")
    masked, axes = moved(supernet(search), 0.1).eval(), search.task.signature.axes
    genotype, plain = search.space.derive(search.start, masked)
    assert {tuple(shape["kernel"]) for shape in genotype.choices["blocks"]} == {(0.2,) * axes}
    assert plain.blocks[0].window is not None
    x = inputs(search.task.signature, 5)
    torch.testing.assert_close(plain(x), masked(x), rtol=1e-5, atol=1e-5)


def test_tokens_are_embedded():
    search = searching(words, task__tokens=True)
    masked = search.space.supernet(search.start, search.task.signature).eval()
    _, plain = search.space.derive(search.start, masked)
    x = inputs(search.task.signature)
    torch.testing.assert_close(plain(x), masked(x), rtol=1e-5, atol=1e-5)


def test_what_was_cut_is_what_the_whole_mask_would_be():
    """Cut weights give the values and gradients of virtual masks, as in the paper: all computed, then zeroed."""
    search = searching(images)
    cut, whole = (moved(supernet(search), 0.1).eval() for _ in range(2))
    whole.step = 10**6  # rendered widths are rounded up to all channels, those outside have a mask of zero
    assert cut.shapes()[0].widths != (16, 16, 16)
    x = inputs(search.task.signature, 5)
    torch.testing.assert_close(cut(x), whole(x), rtol=1e-4, atol=1e-5)
    for network in (cut, whole):
        network(x).square().sum().backward()
    for (name, one), other in zip(cut.named_parameters(), whole.parameters(), strict=True):
        if one.grad is not None:
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-3, atol=1e-4, msg=name)


def literal(network):
    """Masks and weights block by block and axis by axis, each by its formula."""
    kernels, resolutions, widths = network.kernels, network.resolutions, network.widths
    for number, shape in enumerate(network.shapes()):
        block = network.blocks[number]
        grid = block.grid(network.trained, shape)
        at = zip(block.lines(grid.kernel, CPU, torch.float32), kernels.width[number], kernels.mean[number], strict=True)
        yield product([gaussian(*line) for line in at])
        at = zip(block.frequencies(grid, CPU), resolutions.offset[number], strict=True)
        yield product([sigmoid(line, offset, resolutions.temperature) for line, offset in at])
        rows = [sigmoid(places(network.width), offset, widths.temperature) for offset in widths.offset[number]]
        a, b, c = sizes = shape.widths
        inner, middle, outer = (mask[:size] for mask, size in zip(rows, sizes, strict=True))
        yield block.kernel[:a] * inner[:, None]
        yield block.kernel_bias[:a] * inner
        yield block.mix.weight[:b, :a] * middle[:, None]
        yield block.mix.bias[:b] * middle
        yield block.out.weight[:c, :b] * outer[:, None]
        yield block.out.bias[:c] * outer


@pytest.mark.parametrize("data", [signals, images])
def test_masks_of_all_blocks_at_once_are_those_of_every_block(data):
    """Values, and gradients of everything: sizes differ from block to block, and one is closed."""
    settings = {"space__learn_mean": True, "space__learn_temperature": True, "space__strict": False}
    network = moved(supernet(searching(data, **settings)), 0.1)
    with torch.no_grad():
        network.resolutions.offset[0] -= 0.9
        network.kernels.width[1] = 0.2
        network.depth.offset.fill_(0.4)
    now = network.rendered()
    assert len(now.grids) == 3 < len(network.blocks)
    assert len(set(now.grids)) == 3
    pairs = zip(network._masks(now), network._weights(now.cuts), strict=True)
    ours, theirs = [part for masks, weights in pairs for part in (*masks, *weights)], list(literal(network))
    of = [parameter for name, parameter in network.named_parameters() if "depth" not in name]
    weights = [torch.randn_like(part) for part in theirs]
    gradients = []
    for parts in (ours, theirs):
        total = sum((weight * part).sum() for weight, part in zip(weights, parts, strict=True))
        gradients.append(torch.autograd.grad(total, of, allow_unused=True))
    torch.testing.assert_close(ours, theirs)
    for one, other in zip(*gradients, strict=True):
        assert (one is None) == (other is None)
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_what_follows_from_sizes_is_made_once_and_follows_them():
    search = searching(images)
    network, other = (moved(supernet(search), 0.1).eval() for _ in range(2))
    x = inputs(search.task.signature, 5)
    before, y = network.rendered(), network(x)
    assert network.rendered() is before
    with torch.no_grad():
        for each in (network, other):
            each.kernels.width.mul_(0.5)
            each.widths.offset.sub_(0.3)
    assert network.rendered() != before
    other._rendered = None
    assert torch.equal(network(x), other(x))
    assert not torch.equal(network(x), y)
    finer = torch.randn(1, 1, 12, 12)
    assert torch.equal(network(finer), other(finer))
    with torch.inference_mode():
        network(torch.randn(1, 1, 6, 6))
    network(torch.randn(1, 1, 6, 6)).sum().backward()
    network.double()
    assert network(x.double()).dtype == torch.float64
    assert network.rendered().kernels.at.dtype == torch.float64


class Kernels(TorchDispatchMode):
    """Counts what would be launched on a GPU, or nearly: all calls that are no views."""

    number = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        aliases = [value.alias_info for value in function._schema.returns]
        self.number += not any(alias is not None and not alias.is_write for alias in aliases)
        return function(*args, **(kwargs or {}))


def test_masks_of_a_block_take_few_launches():
    """On a GPU the steps of small networks take as long as their launches."""

    def kernels(network):
        for _ in range(2):  # what follows from the sizes is made by the first
            with Kernels() as count:
                network.train()(torch.randn(4, 1, 8, 8)).sum().backward()
            network.zero_grad(set_to_none=True)
        return count.number

    counts = []
    for blocks in (2, 6):
        search = searching(images, backbone__blocks=blocks, space__strict=False)
        masked = supernet(search)
        with torch.no_grad():
            masked.depth.offset.fill_(9.0)
        masked.depth.clamp()
        _, plain = search.space.derive(search.start, masked)
        counts.append((kernels(masked), kernels(plain)))
    masked, plain = ((more - less) / 8 for less, more in zip(*counts, strict=True))  # the largest have 4 and 12 blocks
    assert plain <= 65
    assert masked <= plain + 30


def test_closed_blocks_are_skipped_and_get_no_gradient():
    network = supernet(searching(images, space__target=0.4))
    with torch.no_grad():
        network.depth.offset.fill_(-9.0)
    network.depth.clamp()
    assert len(network.shapes()) == 1
    network(torch.randn(2, 1, 8, 8)).sum().backward()
    assert network.blocks[0].mix.weight.grad is not None
    assert network.blocks[3].mix.weight.grad is None


def test_kernel_masks_learn():
    network = moved(supernet(searching(images)), 0.05)
    network(torch.randn(4, 1, 8, 8)).square().sum().backward()
    for table in (network.kernels.width, network.resolutions.offset, network.widths.offset, network.depth.offset):
        assert table.grad.abs().sum() > 0


def test_flops_follow_the_target():
    """What the formula says is what is computed: half of the cost is half of the operations, but for the ends."""
    sizes = {}
    for target in (0.5, 1.0):
        search = searching(images, space__target=target, backbone__width=32, space__learn="W")
        genotype, plain = search.space.derive(search.start, supernet(search))
        sizes[target] = measure_cost(plain, search.task.signature, AROUND.device).flops
        assert genotype.choices["complexity"] == pytest.approx(target, rel=0.05)
    assert sizes[0.5] < 0.65 * sizes[1.0]


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("coarse", [False, True])
def test_memory_is_what_a_step_keeps(dropout, coarse):
    """Exactly, in the blocks: what two blocks keep more than one does."""
    signature, sizes = Signature("classification", 1, (8, 8), 2), (10, 14, 20)
    shape = BlockShape(sizes, resolution=(-0.3, -0.3) if coarse else ())
    one, two = (CCNN(signature, 20, [shape] * number, hidden=8, dropout=dropout) for number in (1, 2))
    points = np.prod(one.blocks[0].grid((8, 8)).points)
    counted = BlockSizes(torch.tensor([float(points)]), torch.tensor([sizes]).float(), torch.tensor(1.0))
    more = kept_a_sample(two, signature) - kept_a_sample(one, signature)
    assert more == complexity(counted, weighing_of("memory", dropout), 8)


def test_a_training_keeps_the_budget_while_sizes_change():
    search = searching(images, space__target=0.7)
    prepared = Supernet(optimiser="adamw", learning_rate=0.05).prepare(search, search.start, AROUND, "search")
    training = Training(prepared.model, prepared.task, prepared.step, prepared.config, AROUND)
    network, seen = prepared.model.get_submodule("network"), set()
    for number in range(12):
        training.step.set_rate(1.0, 0.0)
        training.step(*training.feed.batch(number))
        assert network.relative() == pytest.approx(1.0, abs=0.06)
        seen.add(tuple(shape.widths for shape in network.shapes()))
    assert len(seen) > 1


def test_the_cost_is_written_down_with_every_epoch(tmp_path):
    result = Case(signals, SMALL).run(tmp_path / "run", "dnarch")
    (row,) = rows(tmp_path / "run")
    assert [entry["complexity"] for entry in row.history] == pytest.approx([1.0, 1.0], abs=0.05)
    assert "Cost, in units of the target" in (tmp_path / "run" / "report.html").read_text()
    assert result.genotype.choices["complexity"] == pytest.approx(1.0, abs=0.05)


def test_a_target_that_was_missed_is_told(tmp_path):
    """Without strictness nothing but the loss keeps to it."""
    told: list[str] = []

    def listen(event: str, fields: dict[str, Any]) -> None:
        told.extend([fields["text"]] if event == "notice" else [])

    moving = {"strategy.learning_rate": 1.0, "train.keep": "last"}
    settings = {**SMALL, "space.strict": False, "space.penalty": 0.0, **moving}
    result = Case(signals, settings).run(tmp_path / "run", "dnarch", listeners=[listen])
    (row,) = rows(tmp_path / "run")
    cost = result.genotype.choices["complexity"]
    assert abs(cost - 1) > 0.05
    assert (
        row.note
        == result.metrics["note"]
        == (
            f"by the operations of its blocks it costs {cost:.3g} times what the backbone costs, but "
            "space.target was 1: space.strict=true keeps to it"
        )
    )
    assert told[-1] == f"{row.name}: {row.note}"


def test_a_target_that_sizes_are_too_coarse_for_is_told():
    space = searching(signals).space
    near, far = (Genotype("dnarch", {"complexity": c, "target": 0.5, "count": "memory"}) for c in (0.52, 0.53))
    assert space.remark(Genotype("dnarch", {})) == space.remark(near) == ""
    assert space.remark(far) == (
        "by its memory it costs 0.53 times what the backbone costs, but space.target was 0.5: "
        "its sizes are too coarse for that"
    )


def bump(points: int, number: int = 48) -> dict[str, np.ndarray]:
    """A hump at a random place, and the same one half as high: at any resolution."""
    centres = np.random.default_rng(0).uniform(0.3, 0.7, size=(number, 1, 1))
    x = np.exp(-(((np.arange(points) / points - centres) / 0.1) ** 2)).astype(np.float32)
    return {"x": x, "y": 0.5 * x}


def test_train_at_32_predict_at_48(tmp_path):
    """Kernels belong to the domain: a finer signal is predicted about as well."""
    found = Case(lambda: bump(32), {**SMALL, "train.epochs": 6}).run(tmp_path / "run", "dnarch")
    scores = {n: eclose.predict(found.run, bump(n)["x"], y=bump(n)["y"]).score for n in (32, 48)}
    assert eclose.predict(found.run, bump(48)["x"])["prediction"].shape == (48, 48)
    assert scores[48] == pytest.approx(scores[32], rel=0.05)
    with pytest.raises(TaskError, match="x has samples of 2 x 48, the network takes 1 x 48"):
        eclose.predict(found.run, np.zeros((4, 2, 48), np.float32))


def test_kernels_learn_their_size_at_a_low_resolution_too():
    """However narrow they are on the points of the training, and however few points are computed."""
    network = supernet(searching(images, space__kernel_width=0.0325, space__strict=False))
    with torch.no_grad():
        network.resolutions.offset.fill_(-0.2)
    grids = network.rendered().grids
    assert all(points < trained for points, trained in zip(grids[0].points, network.trained, strict=True))
    assert min(min(grid.taps) for grid in grids) >= 3
    network(torch.randn(4, *network.signature.input_shape(1)[1:])).square().sum().backward()
    assert (network.kernels.width.grad[: len(grids)] != 0).all()


def test_another_resolution_is_no_other_function():
    """Where a mask loses its last frequencies, what is computed on fewer points is what it was, but for those."""
    torch.manual_seed(0)
    network = supernet(searching(images, space__strict=False, space__learn="R", backbone__blocks=1)).eval()
    x, answers = torch.randn(4, *network.signature.input_shape(1)[1:]), {}
    for offset in torch.linspace(1.0, -0.2, 241).tolist():
        with torch.no_grad():
            network.resolutions.offset.fill_(offset)
            answers.setdefault(network.rendered().grids[0].points, []).append(network(x))
    assert len(answers) > 2
    steps = [(one[-1] - other[0]).norm() / one[-1].norm() for one, other in itertools.pairwise(answers.values())]
    assert max(steps) < 0.1


@torch.no_grad()
def test_branches_under_masks_begin_as_strong_as_those_without():
    """Layers that read part of their channels make up for the others."""
    added = []
    for seed in range(4):
        torch.manual_seed(seed)
        masked = supernet(searching(images, space__learn="W", backbone__width=32, backbone__blocks=1)).eval()
        plain = CCNN(masked.signature, 32, [BlockShape((32, 32, 32))], hidden=masked.hidden).eval()
        x = torch.randn(16, 64, *masked.trained)
        pairs = ((masked, x), (plain, x[:, :32]))
        added.append([float((network.residuals(y) - y)[:, :16].square().mean()) for network, y in pairs])
    ours, theirs = np.mean(added, 0)
    assert 0.7 < ours / theirs < 1.4


def most_taps(sizes):
    return [2 * size - 1 for size in sizes]


@pytest.mark.parametrize("sizes", [(1,), (2,), (3,), (1, 5), (2, 1, 3)])
def test_signals_shorter_than_any_mask(sizes):
    """Kernels and resolutions of one point: nothing is left to learn along such an axis, and nothing breaks."""
    search = searching(signals)
    signature = Signature("dense", 2, sizes, 1)
    genotype = search.space.start(signature)
    torch.manual_seed(0)
    masked = moved(search.space.supernet(genotype, signature), 0.1).eval()
    found, plain = search.space.derive(genotype, masked)
    x = torch.randn(3, 2, *sizes)
    torch.testing.assert_close(plain(x), masked(x), rtol=1e-5, atol=1e-5)
    assert all(1 <= size <= most for size, most in zip(plain.blocks[0].grid(sizes).taps, most_taps(sizes), strict=True))


def test_masks_never_close_everything():
    network = supernet(searching(images, space__strict=False))
    with torch.no_grad():
        for table in (network.widths, network.resolutions, network.depth):
            table.offset.fill_(-9.0)
        network.kernels.width.fill_(1e-9)
    Verbs(network).after_step()
    (shape,) = network.shapes()
    assert min(shape.widths) >= 1
    assert network(torch.randn(2, 1, 8, 8)).isfinite().all()


@pytest.mark.parametrize(("target", "much"), [(0.5, "0.5 times"), (1.0, "as much as")])
def test_what_is_said_before_a_search(target, much):
    (line,) = searching(images, space__target=target).space.notices(Signature("classification", 1, (8, 8), 2))
    assert line == (
        "dnarch learns kernel sizes, resolutions, widths and depth of a ccnn with 16 channels and 4 blocks at most; "
        f"by the operations of its blocks it costs {much} one with 8 channels and 2 blocks"
    )


def test_a_penalty_grows_with_the_epochs_alone():
    with pytest.raises(ConfigError) as error:
        searching(images, space__growth=10.0, budget__minutes=1.0)
    assert str(error.value) == "space.growth follows the epochs, not a time: give --epochs and no --minutes"


def test_steps_wider_than_the_network_are_refused():
    with pytest.raises(ConfigError) as error:
        searching(images, space__step=64, backbone__width=8)
    assert str(error.value) == (
        "space.step is 64, but the network has 16 channels at most: choose a part of them, or leave it out"
    )
    with pytest.raises(ConfigError, match="the network has 8 channels at most"):
        searching(images, space__step=9, space__learn="K", backbone__width=8)
    assert searching(images, space__step=16, backbone__width=8).space.step == 16


def test_one_channel_and_one_block_are_no_plurals():
    small = searching(images, backbone__width=1, backbone__blocks=1, space__largest=1.0, space__learn="K")
    (line,) = small.space.notices(Signature("classification", 1, (8, 8), 2))
    assert line == "dnarch learns kernel sizes of a ccnn with 1 channel and 1 block at most"


def test_offered_to_a_portfolio_where_it_fits():
    space, signature = searching(images).space, Signature("classification", 1, (8, 8), 2)
    assert space.offers(signature, []) == []
    (offered,) = space.offers(signature, [searching(images).start])
    assert offered.choices["options"]["width"] == 32
    for sizes, told in (((3,), "3"), ((4, 4), "4 x 4"), ((65, 64), "65 x 64")):
        with pytest.raises(Unsuited) as error:
            space.offers(Signature("classification", 1, sizes, 2), [offered])
        assert str(error.value) == (
            f"dnarch is offered for 8 points or more along an axis, and 4096 at most in all: not for {told}"
        )


def test_explained():
    search = searching(images)
    genotype, network = search.space.derive(search.start, supernet(search))
    (section,) = search.space.explain(genotype, network)
    assert section.table.rows[0][:6] == (1, "9 x 9", "8 x 8", 8, 8, 8)
    assert any("Of 4 blocks that it could have had, 2 were closed." in each for each in section.sentences)
    assert [node.label for node in section.drawing.nodes] == [
        *("encoder", "8, 8, 8", "8, 8, 8", "closed", "closed", "decoder")
    ]
    assert section.drawing.nodes[1].detail == "9 x 9 at 8 x 8"
    assert any("costs 1 times" in each and "the target was 1." in each for each in section.sentences)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"space__learn": "KX"}, "space.learn is 'KX', but must be letters of KRWD"),
        ({"space__learn": "KK"}, "space.learn is 'KK'"),
        ({"space__count": "flops"}, "space.count is 'flops'; known: latency, memory, operations, parameters"),
        ({"space__weighing": (1.0,)}, "space.weighing is what space.count=latency has measured"),
        ({"space__target": -1.0}, "space.target is -1.0, but must be at least 0"),
        ({"space__latency_batch": -1, "space__count": "latency"}, "space.latency_batch is -1, but must be at least 0"),
        ({"space__latency_batch": 4}, "space.latency_batch is 4, but nothing is timed: set space.count=latency, or"),
        ({"space__largest": 0.5}, "space.largest is 0.5, but must be at least 1"),
        ({"space__largest": 1000.0}, "space.largest is 1000, but must be at most 16: begin with a larger network"),
        ({"space__depth_temperature": 1.0}, "space.depth_temperature is 1.0, but must be at least 4"),
        ({"space__target": 0.001}, "space.target is 0.001, but the nearest that these masks reach is 0.0"),
        ({"space__target": 50.0}, "space.target is 50, but the nearest that these masks reach is 6.78"),
        ({"space__target": 50.0}, "choose that, or a larger space.largest or backbone.width$"),
        (
            {"space__target": 0.001},
            "choose that, or a smaller space.largest, or a larger space.width_temperature together",
        ),
        ({"space__target": 0.001, "space__largest": 1.0}, "choose that, or a larger space.width_temperature together"),
        ({"space__target": 0.001}, "or a larger space.width_temperature together with a larger backbone.width$"),
        ({"space__target": 0.001, "space__learn": "WD"}, "choose that, or learn more sizes .space.learn=KRWD.$"),
        ({"space__learn": "K", "space__target": 0.5}, "nearest that these masks reach is 1 times the cost"),
        ({"space__learn": "K", "space__target": 0.5}, "choose that, or learn more sizes .space.learn=KRWD.$"),
        (
            {"space__learn": "KW", "space__target": 50.0, "backbone__causal": True},
            "choose that, or learn more sizes .space.learn=KWD.$",
        ),
        ({"backbone__kernel": 0.3}, "backbone.kernel is 0.3, but kernel sizes are learned: leave it out"),
        ({"backbone__kernel": 0.3}, "leave it out; space.kernel_width says how wide they begin$"),
        ({"backbone__causal": True}, "space.learn has R, but a coarser signal knows of its future"),
    ],
)
def test_bad_options(settings, words):
    with pytest.raises(ConfigError, match=words):
        supernet(searching(signals, **settings))


@pytest.mark.parametrize("settings", [{"space__largest": 1.0}, {"space__width_temperature": 100.0}])
def test_what_an_error_advises_leads_to_smaller_networks(settings):
    def nearest(**more):
        with pytest.raises(ConfigError) as error:
            supernet(searching(signals, space__target=1e-4, **more))
        return float(re.search(r"reach is (\S+) times", str(error.value))[1])

    assert nearest(backbone__width=32, **settings) < 0.5 * nearest()


def test_pairs_are_trained_while_widths_change():
    """Both signals of a pair pass the same norms in one step, which forget the channels that are closed."""
    search = searching(signals, backbone__pair=True)
    network = moved(supernet(search), -0.2).train()
    network(inputs(search.task.signature, 4)).square().sum().backward()
    assert float(network.widths.offset.grad.abs().sum()) > 0


@pytest.mark.parametrize(
    ("data", "settings", "says"),
    [
        (signals, {"backbone__generator": "Siren"}, "backbone.generator is 'Siren'; did you mean 'siren'"),
        (signals, {"backbone__width": 0}, "backbone.width is 0, but 'ccnn' needs it to be at least 1"),
        (signals, {"backbone__blocks": 0}, "backbone.blocks is 0, but 'ccnn' needs it to be at least 1"),
        (signals, {"backbone__hidden": 0}, "backbone.hidden is 0, but 'ccnn' needs it to be at least 1"),
        (images, {"backbone__pair": True}, "backbone.pair is for signals along 1 axis"),
        (images, {"backbone__causal": True, "space__learn": "KWD"}, "backbone.causal is for signals along 1 axis"),
    ],
)
def test_options_of_the_network_are_checked(data, settings, says):
    with pytest.raises(ConfigError, match=re.escape(says)):
        searching(data, **settings)
