"""Trees as text and JSON, there and back."""

import json
import random

import pytest
import torch

from eclose.errors import ConfigError
from eclose.spaces.einspace import build, digest, from_json, mutate, parse, text, to_json
from eclose.spaces.einspace.grammar import Branch, Op, Route, Sequential
from tests.spaces.einspace.inputs import INPUTS, samples

BLOCK = "branch(clone(2), seq(route(im2col(3,1,1), linear(64), col2im), seq(norm, relu)), identity, add)"


def test_the_block_of_figure_3() -> None:
    conv = Route(Op("im2col", (3, 1, 1)), Op("linear", (64,)), Op("col2im"))
    inner = Sequential(conv, Sequential(Op("norm"), Op("relu")))
    block = Branch(Op("clone", (2,)), (inner, Op("identity")), Op("add"))
    assert parse(BLOCK) == block
    assert text(block) == BLOCK


@pytest.mark.parametrize("signature", INPUTS.values(), ids=INPUTS)
def test_round_trips(signature) -> None:
    for tree in samples(signature, 60):
        assert parse(text(tree)) == tree
        assert parse(text(tree, width=30)) == tree
        assert from_json(json.loads(json.dumps(to_json(tree)))) == tree


def test_long_trees_are_broken_into_lines() -> None:
    lines = text(parse(BLOCK), width=60).splitlines()
    assert len(lines) > 3
    assert max(map(len, lines)) <= 60


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("seq(norm)", r"'\['seq', 'norm'\]' is no module"),
        ("matmul", "'matmul' cannot stand for C: allowed are identity, linear"),
        ("seq(linear(0), norm)", r"linear\(0\): write linear\(width\)"),
        ("branch(clone(3), norm, add)", r"clone\(3\): write clone\(b\) with b in \(2, 4, 8\)"),
        ("branch(clone(4), norm, norm, add)", r"clone\(4\) takes 1 inner module\(s\), but 2 are given"),
        ("route(permute(1,3), norm, identity)", r"permute\(1,3\): write permute"),
        ("seq(norm, norm", "the text ends where ',' or '\\)' belongs"),
        ("seq(norm, norm))", "'\\)' at position 15 where the end belongs"),
        ("seq(norm; norm)", "'; norm\\)' at position 8"),
        ("linear(3,", "'' where a number belongs"),
        ("", "'' where the name"),
        ("linear(" + 5000 * "9" + ")", "is no operation: write its name and numbers of up to 9 digits"),
    ],
)
def test_mistakes_are_explained(source: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(source)


@pytest.mark.parametrize("data", [3, {}, ["seq"], ["route", "identity", "norm", ["seq"]], [], None])
def test_foreign_data_is_refused(data: object) -> None:
    with pytest.raises(ConfigError):
        from_json(data)


def nested(depth: int) -> str:
    return "branch(clone(2), norm, " * depth + "norm" + ", add)" * depth


def test_trees_nested_too_deeply_are_refused() -> None:
    for depth in (101, 20000):
        with pytest.raises(ConfigError, match="nested too deeply: at most 100 modules stand within each other"):
            parse(nested(depth))
    data: object = "norm"
    for _ in range(20000):
        data = ["seq", "norm", data]
    with pytest.raises(ConfigError, match="nested too deeply"):
        from_json(data)


def test_the_deepest_tree_is_read_built_and_trained() -> None:
    tree = parse(nested(100))
    assert parse(text(tree)) == tree
    assert from_json(json.loads(json.dumps(to_json(tree)))) == tree
    signature = INPUTS["points"]
    build(tree, signature)(torch.randn(2, 8, 1)).sum().backward()
    assert digest(mutate(tree, signature, random.Random(0))) != digest(tree)
