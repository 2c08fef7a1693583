"""What a budget says is what can be measured on the network that is handed back, beside the backbone."""

import math
import re
from typing import Any

import pytest
import torch
from torch import nn

from eclose.backbones import make_backbone
from eclose.config import Config
from eclose.errors import ConfigError
from eclose.signature import Signature
from eclose.spaces import spaces
from tests.spaces.dnarch.measured import kept_a_sample, parameters

IMAGES = Signature("classification", 3, (12, 10), 10)
MEASURES = {"parameters": lambda network, signature: parameters(network), "memory": kept_a_sample}


def searched(signature: Signature, count: str, target: float, learn: str = "", **settings: Any) -> Any:
    """What was found, and the network without masks and the backbone."""
    torch.manual_seed(0)
    given = {f"backbone.{name}": value for name, value in settings.items()}
    config = Config().with_values({"train.epochs": 1, **given})
    space = spaces["dnarch"].make(config, learn=learn, target=target, count=count)
    start = space.start(signature)
    found, network = space.derive(start, space.supernet(start, signature))
    return found, network, make_backbone(start.choices["backbone"], signature, start.choices["options"])


def relative(signature: Signature, count: str, network: nn.Module, backbone: nn.Module) -> float:
    return MEASURES[count](network, signature) / MEASURES[count](backbone, signature)


CCNNS = [
    *((width, "memory", target) for width in (16, 32, 140) for target in (0.5, 1.0)),
    *((16, "parameters", target) for target in (0.9, 1.0)),
    *((32, "parameters", target) for target in (0.8, 1.0)),
    *((140, "parameters", target) for target in (0.5, 1.0)),
]


@pytest.mark.parametrize(("width", "count", "target"), CCNNS)
def test_a_continuous_cnn_costs_what_was_asked_for(width, count, target):
    """Its encoder is as wide as the largest network, and the generator of kernels is that of the backbone."""
    found, network, backbone = searched(IMAGES, count, target, width=width)
    cost = relative(IMAGES, count, network, backbone)
    assert cost == pytest.approx(target, rel=0.05)
    assert cost == pytest.approx(found.choices["complexity"], rel=1e-3)


KINDS = [
    (Signature("dense", 2, (9, 8), 3), {"dropout": 0.1}),
    (Signature("segmentation", 1, (20,), 3), {"generator": "magnet"}),
    (Signature("classification", 1, (16,), 3, 11), {"hidden": 20}),
    (Signature("classification", 1, (16,), 3, 11), {"pair": True, "generator": "siren", "hidden": 100}),
    (Signature("regression", 3, (4, 3, 5), 1), {"batch_statistics": True}),
]


@pytest.mark.parametrize("learn", ["RD", "KRWD"])
@pytest.mark.parametrize("count", ["parameters", "memory"])
@pytest.mark.parametrize(("signature", "options"), KINDS)
def test_it_does_on_any_data_with_any_options(signature, options, count, learn):
    """With the embedding of tokens, heads of pairs and of dense answers, factors of dropout."""
    target = {"parameters": 0.9, "memory": 0.8}[count] if "W" in learn else 1.0
    found, network, backbone = searched(signature, count, target, learn, width=12, blocks=3, **{"hidden": 8, **options})
    cost = relative(signature, count, network, backbone)
    assert cost == pytest.approx(target, rel=0.05)
    assert cost == pytest.approx(found.choices["complexity"], rel=1e-3)


@pytest.mark.parametrize("width", [16, 32])
def test_the_floor_of_parameters_is_that_of_the_generator(width):
    """A target below it is refused with the nearest one, which then is met; a smaller generator lets more go."""

    def floor(**options):
        with pytest.raises(ConfigError) as error:
            searched(IMAGES, "parameters", 0.1, width=width, **options)
        assert "or a smaller backbone.hidden, or a larger space.width_temperature" in str(error.value)
        return float(re.search(r"the nearest that these masks reach is (\S+) times", str(error.value))[1])

    nearest = floor()
    _, network, backbone = searched(IMAGES, "parameters", nearest, width=width)
    assert relative(IMAGES, "parameters", network, backbone) == pytest.approx(nearest, rel=0.01)
    generator = parameters(backbone.trunk) / parameters(backbone)
    assert generator < nearest < generator + 0.1
    assert floor(hidden=16) < nearest - 0.2


def test_masks_that_cost_nothing_stay():
    """Resolutions change no parameters: a budget does not shift them in vain."""
    found, _, _ = searched(IMAGES, "parameters", 0.5, width=140)
    offsets = [offset for block in found.choices["blocks"] for offset in block["resolution"]]
    assert offsets == pytest.approx([1 + math.log(0.85 / 0.15) / 25] * len(offsets))  # as far as they may


RESIDUAL = [("resnet20", IMAGES), ("resnet", IMAGES), ("resnet", Signature("regression", 2, (24,), 1))]


@pytest.mark.parametrize(("name", "signature"), RESIDUAL)
@pytest.mark.parametrize(
    ("count", "learn", "target"), [("parameters", "", 0.5), ("memory", "", 0.6), ("memory", "W", 0.8)]
)
def test_another_residual_network_costs_what_was_asked_for(name, signature, count, learn, target):
    found, network, backbone = searched(signature, count, target, learn, name=name, width=8)
    cost = relative(signature, count, network, backbone)
    assert cost == pytest.approx(target, rel=0.05)
    assert cost == pytest.approx(found.choices["complexity"], rel=1e-3)
