"""The space of XD-operations: which layers it relaxes, and that a genotype brings them back."""

from pathlib import Path
from typing import Any

import pytest
import torch

from eclose.config import Config
from eclose.errors import ConfigError
from eclose.ops.xd import XD
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


@pytest.mark.parametrize("gates", ["real", "complex"])
def test_a_genotype_brings_the_operations_back(gates: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    made = space(kinds=["conv", "pool"], max_kernel=6, depth=[1, 2, 1], gates=gates)
    network = made.supernet(made.start(IMAGES), IMAGES).eval()
    with torch.no_grad():
        for parameter in named_architecture(network).values():
            parameter.add_(0.1 * torch.randn_like(parameter))
    found, _ = made.derive(made.start(IMAGES), network)
    found.save(tmp_path)
    again = space().build(Genotype.load(tmp_path), IMAGES).eval()
    again.load_state_dict(network.state_dict())
    x = torch.randn(IMAGES.input_shape(2))
    torch.testing.assert_close(again(x), network(x))
    assert not any(parameter.requires_grad for parameter in named_architecture(again).values())


def test_mistakes() -> None:
    made = space(kinds=["pools"])
    with pytest.raises(ConfigError, match="unknown kind of layers 'pools'; did you mean 'pool'"):
        made.supernet(made.start(IMAGES), IMAGES)
    with pytest.raises(ConfigError, match="space.kinds is 'conv', but must be a list"):
        space(kinds="conv")
    with pytest.raises(ConfigError, match="space.gates is 'imaginary', but must be true or false, or one of: real, c"):
        space(gates="imaginary")
