"""Equal networks written differently have one hash; different networks do not."""

import pytest

from eclose.spaces.einspace import digest, parse
from eclose.spaces.einspace.chain import chain
from eclose.spaces.einspace.grammar import Op


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
    ],
)
def test_different(one: str, other: str) -> None:
    assert digest(parse(one)) != digest(parse(other))


def test_permutations_compose_as_tensors_do() -> None:
    import torch

    x = torch.zeros(2, 3, 5)
    tree = parse("route(permute(2,3,1), identity, permute(1,3,2))")
    (op,) = chain(tree)
    assert isinstance(op, Op)
    assert x.permute(1, 2, 0).permute(0, 2, 1).shape == x.permute([axis - 1 for axis in op.args]).shape
