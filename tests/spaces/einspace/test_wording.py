"""What is said of networks and of changes is what is there."""

import random

import pytest

from eclose.spaces.einspace import NoChild, crossover, mutate, parse
from eclose.spaces.einspace.normal_form import chain
from eclose.spaces.einspace.wording import change, parts
from tests.spaces.einspace.inputs import INPUTS, SMALL, samples

CONV = "route(im2col(3,1,1), linear(64), col2im)"
HEAD = (
    "branch(clone(2), seq(branch(clone(2), linear(8), route(identity, linear(8), permute(2,1)), scaled-matmul), "
    "softmax), linear(8), matmul)"
)


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (f"seq({CONV}, seq(norm, relu))", ["convolution (kernel 3, width 64)", "norm", "leaky ReLU"]),
        ("seq(route(im2col(4,4,0), linear(16), identity), pos-enc)", None),
        (f"branch(clone(2), seq({CONV}, norm), identity, add)", ["shortcut (past 2 steps, sum)"]),
        ("branch(group(1,4), seq(norm, relu), concat(1))", ["4 branches (2 steps each, concatenation)"]),
        ("branch(clone(2), norm, softmax, matmul)", ["two branches (1 and 1 step, matrix product)"]),
        (f"seq({HEAD}, linear(16))", ["attention (width 8)", "linear layer (width 16)"]),
        ("seq(identity, identity)", []),
    ],
)
def test_steps(tree: str, words: list[str] | None) -> None:
    expected = ["convolution (kernel 4, stride 4, width 16)", "positional encoding"] if words is None else words
    assert [str(part) for part in parts(chain(parse(tree)))] == expected


@pytest.mark.parametrize(
    ("parent", "child", "words"),
    [
        ("seq(norm, relu)", "seq(norm, softmax)", "softmax in place of leaky ReLU"),
        ("seq(norm, relu)", "seq(norm, seq(relu, softmax))", "softmax added"),
        ("seq(norm, seq(relu, softmax))", "seq(norm, relu)", "softmax removed"),
        (
            "seq(linear(16), relu)",
            "seq(linear(32), relu)",
            "linear layer (width 32) in place of linear layer (width 16)",
        ),
        ("branch(clone(4), norm, add)", "branch(clone(8), norm, add)", "copies (8) in place of copies (4)"),
        ("branch(clone(4), norm, add)", "branch(clone(2), norm, norm, add)", "copies (2) in place of copies (4)"),
        ("branch(clone(4), norm, add)", "branch(clone(4), norm, concat(2))", "concatenation (axis 2) in place of sum"),
        (f"seq({CONV}, norm)", "seq(softmax, norm)", "softmax in place of convolution (kernel 3, width 64)"),
        (
            f"seq(norm, {CONV})",
            f"seq(norm, {HEAD})",
            "attention (width 8) in place of convolution (kernel 3, width 64)",
        ),
        (
            "seq(norm, branch(clone(4), norm, add))",
            "seq(norm, seq(relu, seq(softmax, seq(pos-enc, norm))))",
            "4 steps in place of 4 branches (1 step each, sum)",
        ),
        ("seq(norm, norm)", "seq(norm, norm)", "one module replaced"),
    ],
)
def test_changes(parent: str, child: str, words: str) -> None:
    assert change(parse(parent), parse(child)) == words


@pytest.mark.parametrize("signature", INPUTS.values(), ids=INPUTS)
def test_every_child_has_words(signature) -> None:
    rng = random.Random(0)
    trees = samples(signature, 40)
    for tree, other in zip(trees, trees[1:], strict=False):
        told = change(tree, mutate(tree, signature, rng, SMALL))
        assert told
        assert "{" not in told
        try:
            assert change(tree, crossover(tree, other, signature, rng, SMALL))
        except NoChild:
            continue
