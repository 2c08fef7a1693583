"""The space of XD-operations: which layers it relaxes, and that a genotype brings them back."""

from pathlib import Path
from typing import Any

import pytest
import torch

from eclose.config import Config
from eclose.errors import ConfigError
from eclose.ops.xd import XD, distances
from eclose.signature import Signature
from eclose.spaces import Genotype, spaces
from eclose.spaces.architecture import named_architecture

IMAGES = Signature("classification", 2, (8, 9), 3)


def space(**options: Any) -> Any:
    config = Config().with_values({"backbone.name": "lenet", "backbone.pool": "average", "backbone.widths": [2, 3]})
    return spaces["xd"].make(config, **spaces["xd"].complete(options, "space"))


def relaxed(network: torch.nn.Module) -> dict[str, XD]:
    return {path: module for path, module in network.named_modules() if isinstance(module, XD)}


@pytest.mark.parametrize(
    ("options", "paths"),
    [
        ({}, ["0", "3"]),
        ({"kinds": ["conv", "pool"]}, ["0", "2", "3", "5"]),
        ({"kinds": ["pool"], "bias": False}, ["2", "5"]),
        ({"kinds": ["conv", "pool"], "select": "[35]"}, ["3", "5"]),
    ],
)
def test_kinds(options: dict[str, Any], paths: list[str]) -> None:
    made = space(**options)
    assert list(relaxed(made.supernet(made.start(IMAGES), IMAGES))) == paths


def test_kernels_grow() -> None:
    made = space(max_kernel=7)
    operations = relaxed(made.supernet(made.start(IMAGES), IMAGES))
    assert [tuple(operation.weight.shape) for operation in operations.values()] == [(2, 2, 7, 7), (3, 2, 7, 7)]


@pytest.mark.parametrize(
    ("gates", "shapes"),
    [
        (False, []),
        (True, [(2, 2), (3, 2)]),
        ("real", [(2, 2), (3, 2)]),
        ("complex", [(2, 2, 2), (3, 2, 2)]),
    ],
)
def test_gates(gates: bool | str, shapes: list[tuple[int, ...]]) -> None:
    made = space(gates=gates)
    parameters = named_architecture(made.supernet(made.start(IMAGES), IMAGES))
    assert [tuple(value.shape) for name, value in parameters.items() if name.endswith(".C")] == shapes


def test_a_genotype_of_an_earlier_version_is_the_same_function(tmp_path: Path) -> None:
    """It says nothing of ``largest`` and ``unitary``: its sizes and its scaling are those of its time."""
    made = space(kinds=["conv", "pool"])
    start = made.start(IMAGES)
    old = {key: value for key, value in start.choices["relaxation"].items() if key not in ("largest", "unitary")}
    saved = Genotype("xd", {**start.choices, "relaxation": old})
    torch.manual_seed(0)
    network = made.build(saved, IMAGES)
    for operation in relaxed(network).values():
        arch = operation.architecture
        for place, axis in enumerate(arch.axes):
            scale = axis.transform**0.5  # K = F^-1 and M = F
            torch.testing.assert_close(arch.K[place].dense().norm(), torch.ones(()))
            torch.testing.assert_close(arch.M[place].dense().norm(), torch.tensor(scale**2))
        assert distances(operation).operation == 0
    assert [axis.transform for axis in relaxed(network)["0"].axes] == [10, 11]
    trained = {name: value + 0.1 * torch.rand_like(value) for name, value in named_architecture(network).items()}
    for name, parameter in named_architecture(network).items():
        parameter.data.copy_(trained[name])
    Genotype("xd", saved.choices, {name: value.detach() for name, value in trained.items()}).save(tmp_path)
    torch.manual_seed(0)
    again = made.build(Genotype.load(tmp_path), IMAGES)
    x = torch.randn(2, 2, 8, 9)
    assert torch.equal(again.eval()(x), network.eval()(x))


def test_sizes() -> None:
    def transforms(**options: Any) -> tuple[int, ...]:
        made = space(**options)
        return tuple(axis.transform for axis in relaxed(made.supernet(made.start(IMAGES), IMAGES))["0"].axes)

    assert (transforms(), transforms(largest=3), transforms(paper=True)) == ((10, 12), (12, 12), (16, 16))
    with pytest.raises(ConfigError, match="largest is the largest prime factor of a transform, at least 2, not 1"):
        space(largest=1).start(IMAGES)


def test_mistakes() -> None:
    made = space(kinds=["pools"])
    with pytest.raises(ConfigError, match="unknown kind of layers 'pools'; did you mean 'pool'"):
        made.supernet(made.start(IMAGES), IMAGES)
    with pytest.raises(ConfigError, match="space.kinds is 'conv', but must be a list"):
        space(kinds="conv")
    with pytest.raises(ConfigError, match="space.gates is 'imaginary', but must be true or false, or one of: real, c"):
        space(gates="imaginary")
