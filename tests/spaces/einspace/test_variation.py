"""Children are valid, within the limits and never their parents; or there is a reason."""

import random
from dataclasses import replace

import pytest

from eclose.spaces.einspace import NoChild, Settings, crossover, digest, mutate, parse, variation
from eclose.spaces.einspace.grammar import count
from eclose.spaces.einspace.survey import Survey
from eclose.spaces.einspace.terminals.state import input_state
from tests.spaces.einspace.inputs import IMAGES, INPUTS, SMALL, samples


@pytest.mark.parametrize("signature", INPUTS.values(), ids=INPUTS)
def test_mutations(signature) -> None:
    rng = random.Random(1)
    for parent in samples(signature, 60):
        child = mutate(parent, signature, rng, SMALL)
        cost = Survey(child, input_state(signature)).cost
        assert digest(child) != digest(parent)
        assert count(child).nodes <= SMALL.nodes
        assert cost.parameters <= SMALL.parameters
        assert cost.activations <= SMALL.activations
        assert cost.flops <= SMALL.flops


def test_every_node_can_be_derived_anew() -> None:
    parent = "seq(branch(clone(4), linear(16), concat(1)), seq(route(im2col(3,1,1), norm, identity), softmax))"
    rng = random.Random(0)
    children = {digest(mutate(parse(parent), IMAGES, rng)) for _ in range(3000)}
    for old, new in (
        ("clone(4)", "clone(8)"),
        ("clone(4), linear(16)", "clone(2), linear(16), linear(16)"),
        ("linear(16)", "linear(32)"),
        ("concat(1)", "add"),
        ("3,1,1", "3,2,1"),
        ("norm", "relu"),
        ("norm, identity", "norm, col2im"),
        ("route(im2col(3,1,1), norm, identity)", "relu"),
        ("seq(route(im2col(3,1,1), norm, identity), softmax)", "relu"),
    ):
        assert digest(parse(parent.replace(old, new))) in children


def test_a_parent_over_the_limits_has_children_not_larger() -> None:
    parent = parse("seq(linear(2048), seq(linear(2048), linear(2048)))")
    before = Survey(parent, input_state(IMAGES)).cost
    rng = random.Random(0)
    tight = Settings(parameters=1000, flops=1000, activations=1000)
    for _ in range(30):
        cost = Survey(mutate(parent, IMAGES, rng, tight), input_state(IMAGES)).cost
        assert cost.parameters <= before.parameters
        assert cost.activations <= before.activations


def test_no_child_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variation, "TRIES", 1)
    parent = parse("branch(clone(2), linear(64), linear(64), add)")
    reasons = set()
    for seed in range(100):
        try:
            mutate(parent, IMAGES, random.Random(seed))
        except NoChild as error:
            reasons.add(str(error))
    assert "no child in 1 tries: 1 times shapes that do not fit" in reasons
    with pytest.raises(NoChild, match="no child in 0 tries: no two subtrees are exchangeable"):
        crossover(parse("route(im2col(1,1,0), norm, identity)"), parse("seq(norm, norm)"), IMAGES, random.Random(0))


@pytest.mark.parametrize("signature", INPUTS.values(), ids=INPUTS)
def test_crossovers(signature) -> None:
    rng = random.Random(2)
    trees = samples(signature, 120, replace(SMALL, stop=0.25))
    found = 0
    for first, second in zip(trees[::2], trees[1::2], strict=True):
        try:
            child = crossover(first, second, signature, rng, SMALL)
        except NoChild:
            continue
        found += 1
        Survey(child, input_state(signature))
        assert digest(child) not in (digest(first), digest(second))
        assert count(child).nodes <= SMALL.nodes
    assert found > 15


def test_crossovers_do_not_become_deeper_than_allowed() -> None:
    first = parse("seq(seq(seq(norm, relu), norm), relu)")
    for seed in range(30):
        child = crossover(first, first, IMAGES, random.Random(seed), Settings(depth=4))
        assert Survey(child, input_state(IMAGES)).depth <= 4


def test_a_crossover_takes_a_module_of_the_other() -> None:
    first, second = parse("seq(norm, relu)"), parse("seq(softmax, pos-enc)")
    children = {digest(crossover(first, second, IMAGES, random.Random(seed))) for seed in range(60)}
    assert children == {
        digest(parse(tree))
        for tree in ("seq(softmax, relu)", "seq(pos-enc, relu)", "seq(norm, softmax)", "seq(norm, pos-enc)")
    } | {digest(parse("seq(seq(softmax, pos-enc), relu)")), digest(parse("seq(norm, seq(softmax, pos-enc))"))}
