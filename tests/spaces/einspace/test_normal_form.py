"""Equal networks written differently have one hash; different networks do not."""

import random
from dataclasses import replace
from itertools import permutations

import pytest
import torch

from eclose.signature import Signature
from eclose.spaces.einspace import Tree, build, cost_of, digest, parse
from eclose.spaces.einspace.grammar import Branch, Op, Route, Sequential
from eclose.spaces.einspace.normal_form import chain
from tests.spaces.einspace.inputs import INPUTS, SMALL, samples

CONV = "route(im2col(3,2,1), linear(8), col2im)"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("seq(norm, seq(relu, softmax))", "seq(seq(norm, relu), softmax)"),
        ("seq(norm, identity)", "route(identity, norm, identity)"),
        ("route(permute(2,1), norm, identity)", "seq(route(permute(2,1), identity, identity), norm)"),
        ("route(permute(2,3,1), identity, permute(3,1,2))", "seq(identity, identity)"),
        ("route(permute(2,3,1), identity, permute(2,3,1))", "route(permute(3,1,2), identity, identity)"),
        ("branch(clone(2), norm, relu, add)", "branch(clone(2), relu, norm, add)"),
        ("branch(group(1,4), identity, concat(1))", "seq(identity, identity)"),
        ("branch(group(1,4), relu, concat(1))", "seq(relu, identity)"),
        ("route(im2col(1,1,0), identity, col2im)", "seq(identity, identity)"),
        ("route(im2col(1,1,0), relu, col2im)", "seq(identity, relu)"),
        ("route(im2col(3,1,1), seq(relu, norm), identity)", "seq(relu, route(im2col(3,1,1), norm, identity))"),
        ("route(permute(2,3,1), relu, permute(3,1,2))", "seq(relu, identity)"),
        (f"seq({CONV}, seq(relu, {CONV}))", f"seq(route(im2col(3,2,1), seq(linear(8), relu), col2im), {CONV})"),
        (f"seq({CONV}, route(im2col(1,1,0), norm, identity))", "route(im2col(3,2,1), seq(linear(8), norm), identity)"),
        (CONV, "route(im2col(3,2,1), linear(8), identity)"),
        ("seq(norm, route(im2col(1,1,0), identity, identity))", "seq(norm, identity)"),
    ],
)
def test_equal(one: str, other: str) -> None:
    assert digest(parse(one)) == digest(parse(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("seq(norm, relu)", "seq(relu, norm)"),
        ("branch(clone(2), norm, relu, matmul)", "branch(clone(2), relu, norm, matmul)"),
        ("branch(clone(2), norm, relu, concat(1))", "branch(clone(2), relu, norm, concat(1))"),
        ("branch(group(1,2), norm, relu, add)", "branch(group(1,2), relu, norm, add)"),
        ("branch(group(1,4), identity, concat(2))", "seq(identity, identity)"),
        ("branch(clone(4), norm, add)", "branch(clone(8), norm, add)"),
        ("seq(branch(clone(4), norm, add), relu)", "branch(clone(4), seq(norm, relu), add)"),
        ("seq(linear(16), linear(32))", "seq(linear(16), linear(16))"),
        ("branch(group(1,2), relu, identity, concat(1))", "branch(group(1,2), identity, relu, concat(1))"),
        ("branch(group(1,4), softmax, concat(1))", "seq(softmax, identity)"),
        ("route(im2col(1,2,0), norm, col2im)", "seq(norm, identity)"),
        ("route(im2col(1,1,0), norm, col2im)", "seq(norm, identity)"),  # layer norm is no batch norm
        ("seq(norm, route(im2col(3,1,1), identity, identity))", "seq(norm, identity)"),
    ],
)
def test_different(one: str, other: str) -> None:
    assert digest(parse(one)) != digest(parse(other))


def outputs(tree: Tree, signature: Signature) -> torch.Tensor:
    """Of the whole network, with weights drawn in the order of computation."""
    network = build(tree, signature).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
        if signature.tokens:
            return network(torch.randint(signature.vocabulary, signature.input_shape(3), generator=generator))
        return network(torch.randn(signature.input_shape(3), generator=generator, dtype=torch.float64))


@pytest.mark.parametrize("name", ["rectangle", "signals", "volumes", "fields", "labels", "text", "tags"])
def test_trees_of_one_hash_are_one_network(name: str) -> None:
    first: dict[str, Tree] = {}
    compared = 0
    for tree in samples(INPUTS[name], 1000, replace(SMALL, stop=0.6)):
        other = first.setdefault(digest(tree), tree)
        if other != tree:
            torch.testing.assert_close(outputs(tree, INPUTS[name]), outputs(other, INPUTS[name]))
            compared += 1
    assert compared > 15


@pytest.mark.parametrize("first", list(permutations((1, 2, 3))))
@pytest.mark.parametrize("second", list(permutations((1, 2, 3))))
def test_permutations_compose_as_tensors_do(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    x = torch.empty(2, 3, 5)
    orders = [Op("permute", order) if list(order) != [1, 2, 3] else Op("identity") for order in (first, second)]
    composed = chain(Route(orders[0], Op("identity"), orders[1]))
    assert len(composed) <= 1
    y = x.permute([axis - 1 for axis in first]).permute([axis - 1 for axis in second])
    for op in composed:
        assert isinstance(op, Op)
        x = x.permute([axis - 1 for axis in op.args])
    assert x.shape == y.shape


def rewritten(tree: Tree, rng: random.Random) -> Tree:
    """The same network by another derivation."""
    match tree:
        case Sequential(Sequential(first, second), third) if rng.random() < 0.7:
            tree = Sequential(first, Sequential(second, third))
        case Sequential(first, Route(before, inner, after)) if rng.random() < 0.5:
            tree = Sequential(
                Sequential(first, Route(before, inner, Op("identity"))), Route(Op("identity"), Op("identity"), after)
            )
        case Branch(Op("clone", (2,)), (first, second), Op("add")):
            tree = Branch(Op("clone", (2,)), (second, first), Op("add"))
    if isinstance(tree, Sequential):
        tree = Sequential(rewritten(tree.first, rng), rewritten(tree.second, rng))
    elif isinstance(tree, Route):
        tree = Route(tree.before, rewritten(tree.inner, rng), tree.after)
    elif isinstance(tree, Branch):
        tree = Branch(tree.split, tuple(rewritten(branch, rng) for branch in tree.branches), tree.merge)
    wrapped = (
        Route(Op("identity"), tree, Op("identity")),
        Sequential(Op("identity"), tree),
        Sequential(tree, Op("identity")),
    )
    return rng.choice(wrapped) if rng.random() < 0.3 else tree


@pytest.mark.parametrize("signature", INPUTS.values(), ids=INPUTS)
def test_other_derivations_of_samples(signature: Signature) -> None:
    rng = random.Random(0)
    changed = 0
    for tree in samples(signature, 60):
        other = rewritten(tree, rng)
        changed += other != tree
        assert digest(other) == digest(tree)
        assert cost_of(other, signature) == cost_of(tree, signature)
    assert changed > 40
