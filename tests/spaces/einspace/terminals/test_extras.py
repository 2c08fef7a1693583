"""Optional terminals: off by default, and as exact as the others where they are on."""

import hashlib
import random
from collections import Counter
from dataclasses import replace
from math import inf

import pytest
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from eclose.errors import ConfigError
from eclose.ops.xd import XD
from eclose.ops.xd.evaluation.planner import costs
from eclose.signature import Signature
from eclose.spaces.einspace import Settings, Tree, build, cost_of, from_json, mutate, parse, sample, text, to_json
from eclose.spaces.einspace.grammar import Op, Route, children
from eclose.spaces.einspace.terminals.extras import EXTRAS
from eclose.spaces.einspace.terminals.options import GROUPS
from eclose.train.cost import measure_cost
from tests.spaces.einspace.inputs import INPUTS, samples
from tests.spaces.einspace.network.test_builder import TINY, check_against_literal

EVERY = replace(TINY, extras=GROUPS)
TOKENS = INPUTS["text"]


def names(tree: Tree) -> set[str]:
    return {tree.name} if isinstance(tree, Op) else set().union(*map(names, children(tree)))


def test_without_extras_trees_are_what_they_were() -> None:
    """The hash of trees drawn and mutated without extras, which none may change."""
    said = hashlib.sha256()
    for signature in INPUTS.values():
        rng = random.Random(0)
        for _ in range(40):
            tree = sample(signature, rng, Settings())
            said.update(text(mutate(tree, signature, rng, Settings())).encode())
            said.update(text(tree).encode())
    assert said.hexdigest()[:16] == "a459d603f04553be"


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_adds_its_terminals_only(group: str) -> None:
    own = {one.name for one in EXTRAS.values() if one.extra == group}
    others = set(EXTRAS) - own
    found = set().union(*(names(tree) for tree in samples(TOKENS, 300, replace(EVERY, extras=(group,)))))
    assert own <= found
    assert not others & found


def test_extras_are_as_likely_as_other_terminals() -> None:
    settings = Settings(1.0, inf, inf, inf, inf, extras=GROUPS)
    trees = [tree for tree in samples(TOKENS, 6000, settings) if isinstance(tree, Route)]
    counts = Counter(tree.inner for tree in trees)
    expected = counts.total() / 15
    assert len(counts) == 15
    assert sum((times - expected) ** 2 / expected for times in counts.values()) < 36.1  # once in a thousand


@pytest.mark.parametrize("signature", INPUTS.values(), ids=INPUTS)
def test_samples_and_children_against_the_literal_run(signature: Signature) -> None:
    rng = random.Random(0)
    trees = [tree for tree in samples(signature, 150, EVERY, seed=3) if names(tree) & {"gru", "ssm", "xd"}][:3]
    assert trees
    for tree in trees:
        assert parse(text(tree)) == tree
        assert from_json(to_json(tree)) == tree
        check_against_literal(tree, signature)
        check_against_literal(mutate(tree, signature, rng, EVERY), signature)


@pytest.mark.parametrize("op", ["gru", "ssm"])
@pytest.mark.parametrize(
    "around",
    [
        "seq({}, relu)",
        "branch(clone(4), {}, add)",
        "branch(clone(4), seq(linear(3), {}), concat(2))",
        "branch(group(2,8), {}, concat(2))",
        "branch(clone(4), branch(group(2,4), {}, concat(1)), add)",
        "route(permute(2,1), {}, identity)",
        "branch(clone(2), {}, route(permute(2,1), {}, identity), matmul)",
    ],
)
def test_wherever_they_stand(op: str, around: str) -> None:
    check_against_literal(parse(around.replace("{}", op)), TOKENS)


IMAGE, SIGNAL, VOLUME = (Signature("regression", 4, space, 1) for space in ((5, 4), (11,), (3, 4, 2)))


@pytest.mark.parametrize(
    ("around", "signature"),
    [
        ("seq(xd(6), relu)", IMAGE),
        ("seq(xd(3), xd(2))", SIGNAL),
        ("seq(norm, xd(2))", VOLUME),
        ("branch(clone(4), xd(3), add)", IMAGE),
        ("branch(group(1,4), seq(xd(2), xd(3)), concat(1))", IMAGE),
        ("branch(clone(4), branch(group(3,4), xd(2), concat(2)), add)", IMAGE),
        ("branch(clone(2), xd(4), identity, add)", SIGNAL),
    ],
)
def test_relaxed_convolutions(around: str, signature: Signature) -> None:
    check_against_literal(parse(around), signature)


@pytest.mark.parametrize("signature", [IMAGE, SIGNAL, VOLUME])
def test_they_start_as_convolutions(signature: Signature) -> None:
    network = build(parse("seq(xd(6), relu)"), signature).double()
    operation = network.body[0]
    assert isinstance(operation, XD)
    assert operation.architecture.b is operation.architecture.C is None
    x = torch.randn(signature.input_shape(2), dtype=torch.float64)
    convolution = (F.conv1d, F.conv2d, F.conv3d)[signature.axes - 1]
    truth = convolution(x, operation.weight, operation.bias, padding=1)
    torch.testing.assert_close(operation(x), truth, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("order", ["frequency", "sandwich", "im2col"])
def test_flops_of_relaxed_convolutions(order: str) -> None:
    """Torch's counter leaves out products that add to a tensor in place: up to half of what an order multiplies."""
    for signature in (IMAGE, SIGNAL, VOLUME, INPUTS["images"]):
        body = build(parse("seq(xd(16), relu)"), signature).body
        body[0].order = order
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            body(torch.zeros(signature.input_shape(1)))
        axes = body[0].axes
        counted = 2 * costs(1, signature.channels, 16, 1, axes, bias=False, gates=False)[order].products
        assert counted / 2 <= counter.get_total_flops() <= counted
        assert cost_of(parse("seq(xd(16), relu)"), signature).flops <= counted


@pytest.mark.parametrize("source", ["seq(gru, norm)", "seq(ssm, gru)", "branch(clone(4), seq(linear(5), ssm), add)"])
def test_flops_are_those_that_a_run_counts(source: str) -> None:
    network = build(parse(source), TOKENS)
    head = 2 * network.head[1].weight.numel()
    measured = measure_cost(network, TOKENS, torch.device("cpu")).flops - head
    assert measured == pytest.approx(cost_of(parse(source), TOKENS).flops, abs=3)


def test_modes() -> None:
    for op in ("gru", "ssm"):
        with pytest.raises(ConfigError, match=f"{op} does not fit Im 3 x 32 x 32"):
            build(parse(f"seq({op}, norm)"), INPUTS["images"])
    with pytest.raises(ConfigError, match=r"xd\(16\) does not fit Col 18 x 64"):
        build(parse("seq(xd(16), norm)"), TOKENS)


def test_networks_are_exported() -> None:
    network = build(parse("seq(gru, branch(clone(4), seq(ssm, gru), add))"), TOKENS).eval()
    x = torch.randint(TOKENS.vocabulary, (3, 18))
    program = torch.export.export(network, (x,), dynamic_shapes=({0: torch.export.Dim("batch", min=2, max=64)},))
    torch.testing.assert_close(program.module()(x[:2]), network(x[:2]))


def test_unknown_groups_are_refused() -> None:
    with pytest.raises(ConfigError, match="unknown group of terminals 'recurent' in extras; did you mean 'recurrent'"):
        Settings(extras=("recurent",))
