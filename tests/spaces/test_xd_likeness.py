"""What was found, layer by layer: of networks that did not move, that were trained, and that have nothing to tell."""

import json

import pytest
import torch
from torch import nn

import eclose
from eclose.errors import ConfigError
from eclose.ops.xd import XD
from eclose.spaces.architecture import named_architecture
from eclose.spaces.relaxing.relax import relax
from tests.ops.xd.learned_operations import scrambled


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 2, 3, padding=2, dilation=2, padding_mode="circular")
    )


def test_a_relaxed_network_is_its_backbone():
    first, second = eclose.describe(relax(network(), torch.zeros(1, 1, 8, 7)))
    assert (first.path, first.start, first.distances.operation) == ("0", "convolution", 0)
    assert str(first) == "0: convolution with dilation 1, residual below 0.1 % (started as convolution, moved by 0)"
    assert str(second.nearest[0]) == "convolution with dilation 2, residual below 0.1 %"
    assert [gates.name for gates in first.gates] == ["all channels"]  # C is no square


def test_training_moves_operations_and_all_of_it_is_plain_data():
    model = relax(network(), torch.zeros(1, 1, 8, 7))
    x = torch.randn(16, 1, 8, 7, generator=torch.Generator().manual_seed(1))
    target = x.flip(-1).expand(-1, 2, -1, -1)
    optimiser = torch.optim.Adam(named_architecture(model).values(), lr=1e-3)
    seen = []
    for _ in range(3):
        seen.append(eclose.describe(model))
        (model(x) - target).square().mean().backward()
        optimiser.step()
        optimiser.zero_grad()
    moved = [[found.distances.operation for found in time] for time in seen]
    assert moved[0] == [0, 0]
    assert all(0 < a < b < 1 for a, b in zip(moved[1], moved[2], strict=True))
    assert all(found.nearest[0].name == "convolution" for found in seen[-1])
    told = [found.as_dict() for found in seen[-1]]
    restored = json.loads(json.dumps(told))
    assert [layer["path"] for layer in restored] == ["0", "2"]
    assert set(restored[0]["distances"]) == {"K", "L", "M", "b", "C", "operation", "entries"}
    assert restored[1]["nearest"][0]["parameters"]["dilation"] == [2, 2]


def test_other_starts():
    model = nn.ModuleDict(
        {
            "pool": XD.from_avg_pool(nn.AvgPool1d(2), 2, 8),
            "skip": XD.from_identity(2, (8,)),
            "zero": XD.from_identity(2, (8,), scale=0.0),
        }
    )
    found = eclose.describe(model)
    assert [one.start for one in found] == ["average pooling", "skip", "zero"]
    assert [one.nearest[0].name for one in found] == ["average pooling", "skip", "zero"]


def test_unlike_anything():
    operation, _ = scrambled((16,), 3)
    (found,) = eclose.describe(nn.Sequential(operation))
    assert found.nearest[0].name == "permutation, then convolution"
    with torch.no_grad():
        for parameter in operation.arch_parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(0))
    (found,) = eclose.describe(nn.Sequential(operation))
    assert str(found).startswith("0: unlike any known operation (nearest: ")


def test_nothing_to_describe():
    with pytest.raises(ConfigError, match="the network has no XD-operation"):
        eclose.describe(network())


def test_what_is_not_finite_is_not_described() -> None:
    net = relax(nn.Sequential(nn.Conv1d(2, 2, 3)), torch.zeros(1, 2, 9))
    with torch.no_grad():
        next(iter(named_architecture(net).values()))[0, 0] = torch.nan
    with pytest.raises(ConfigError, match="'0' has parameters that are not finite"):
        eclose.describe(net)
