"""A toy: a continuous space with a mask, a clamp and a cost term, in this file alone.

It needs no line elsewhere: what it wants of its training it says by verbs, what it finds is a smaller plain network.
"""

from collections.abc import Iterator
from math import prod
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import eclose
from eclose.config import Config
from eclose.engine.supernet import Supernet
from eclose.errors import ConfigError
from eclose.runs import Run
from eclose.signature import Signature
from eclose.spaces import ContinuousSpace, Genotype, spaces
from eclose.spaces.explanation import Section, Table
from eclose.train import Training
from eclose.train.module_hooks import Verbs
from tests.contracts.cases import AROUND, Case, registered, rows, signals
from tests.contracts.test_space import ContinuousContract


class Masked(nn.Module):
    """``y = mask x`` for every hidden unit; those whose mask is zero are not computed with at all."""

    static_shapes = False

    def __init__(self, width: int, price: float) -> None:
        super().__init__()
        self.mask, self.price = nn.Parameter(torch.linspace(1.0, 0.1, width)), price

    def forward(self, x: Tensor) -> Tensor:  # (batch, width)
        """``(batch, kept units)``."""
        kept = self.kept()
        return x[:, kept] * self.mask[kept]

    def kept(self) -> Tensor:
        """Numbers of the units that count; one does if none is left."""
        kept = self.mask.detach() > 0
        kept[self.mask.argmax()] = True
        return kept.nonzero().flatten()

    def arch_parameters(self) -> list[nn.Parameter]:
        return [self.mask]

    def extra_loss(self) -> Tensor:
        return self.price * self.mask.mean()

    def after_step(self) -> None:
        self.mask.clamp_(0.0, 1.0)


class MaskedNetwork(nn.Module):
    """One hidden layer under a mask."""

    def __init__(self, inputs: int, width: int, outputs: int, price: float) -> None:
        super().__init__()
        self.hidden, self.mask, self.output = nn.Linear(inputs, width), Masked(width, price), nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:  # (batch, channels, *sizes)
        """``(batch, outputs)``."""
        units = self.mask(self.hidden(x.flatten(1)).relu())
        return nn.functional.linear(units, self.output.weight[:, self.mask.kept()], self.output.bias)


class MaskedSpace(ContinuousSpace):
    """How wide a hidden layer is, found by a mask that costs something."""

    name = "masked"
    strategy = "supernet"
    takes_backbone = False

    def __init__(self, config: Config, *, width: int = 12, price: float = 3.0) -> None:
        if width < 1:
            raise ConfigError(f"space.width is {width}, but must be at least 1")
        self.width, self.price = width, price

    def start(self, signature: Signature) -> Genotype:
        return Genotype(self.name, {"width": self.width})

    def build(self, genotype: Genotype, signature: Signature) -> nn.Module:
        return plain(prod(signature.input_shape(1)), genotype.choices["width"], signature.outputs)

    def supernet(self, genotype: Genotype, signature: Signature) -> nn.Module:
        inputs, width = prod(signature.input_shape(1)), genotype.choices["width"]
        return MaskedNetwork(inputs, width, signature.outputs, self.price)

    def derive(self, genotype: Genotype, network: nn.Module) -> tuple[Genotype, nn.Module | None]:
        kept = network.mask.kept()
        return Genotype(self.name, {"width": len(kept)}), cropped(network, kept)

    def text(self, genotype: Genotype) -> str:
        return f"{genotype.choices['width']} units"

    def explain(self, genotype: Genotype, network: nn.Module) -> list[Section]:
        table = Table(("layer", "units"), (("hidden", genotype.choices["width"]),))
        return [Section("How wide it is", (f"Of {self.width} units {genotype.choices['width']} are left.",), table)]


class AnewSpace(MaskedSpace):
    """The same, but its weights are thrown away: what it finds is trained anew."""

    name = "anew"
    trained_anew = True

    def derive(self, genotype: Genotype, network: nn.Module) -> tuple[Genotype, nn.Module | None]:
        return super().derive(genotype, network)[0], None


def plain(inputs: int, width: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, outputs))


@torch.no_grad()
def cropped(network: nn.Module, kept: Tensor) -> nn.Sequential:
    """A plain network of the kept units; the mask is part of the weights behind them."""
    small = plain(network.hidden.in_features, len(kept), network.output.out_features).to(kept.device)
    small[1].weight.copy_(network.hidden.weight[kept])
    small[1].bias.copy_(network.hidden.bias[kept])
    small[3].weight.copy_(network.output.weight[:, kept] * network.mask.mask[kept])
    small[3].bias.copy_(network.output.bias)
    return small


@pytest.fixture(scope="module")
def masked_spaces() -> Iterator[None]:
    with registered(spaces, masked=MaskedSpace, anew=AnewSpace):
        yield


EAGER = {"strategy.optimiser": "adam", "strategy.learning_rate": 0.1, "train.keep": "last"}


@pytest.mark.usefixtures("masked_spaces")
class TestMasked(ContinuousContract):
    name = "masked"
    cases = (Case(signals, {}),)
    runs = EAGER

    def moved(self, search: object) -> nn.Module:
        """Some units are gone."""
        supernet = super().moved(search)
        with torch.no_grad():
            supernet.mask.mask[1::3] = -0.5
        Verbs(supernet).after_step()
        return supernet

    def test_the_mask_is_clamped_after_every_step(self) -> None:
        search = self.cases[0].search(space=self.name)
        prepared = Supernet(learning_rate=3.0).prepare(search, search.start, AROUND, "search")
        training = Training(prepared.model, prepared.task, prepared.step, prepared.config, AROUND)
        masks = []
        for number in range(3):
            training.step.set_rate(1.0, 0.0)
            training.step(*training.feed.batch(number))
            masks.append(prepared.model.get_submodule("network.mask").mask.detach().clone())
        assert all(mask.min() >= 0 and mask.max() <= 1 for mask in masks)
        assert any((mask == 0).any() for mask in masks)

    def test_the_row_is_that_of_the_smaller_network(self, found: eclose.Result) -> None:
        (row,) = rows(found.run)
        width = found.genotype.choices["width"]
        assert width < 12
        assert (row.parameters, row.architecture_parameters) == (16 * width + width + width * 3 + 3, 0)
        assert row.genotype == {"width": width}
        assert found.metrics["parameters"] == row.parameters
        assert type(found.model.get_submodule("network")) is nn.Sequential

    def test_the_cost_is_what_makes_it_small(self, found: eclose.Result, tmp_path: Path) -> None:
        free = self.cases[0].run(tmp_path / "run", self.name, settings={**self.runs, "space.price": 0.0})
        assert free.genotype.choices["width"] > found.genotype.choices["width"]


@pytest.mark.usefixtures("masked_spaces")
class TestAnew(ContinuousContract):
    name = "anew"
    cases = (Case(signals, {}),)
    runs = EAGER

    def test_what_it_finds_has_no_weights_before_its_final_training(self, found: eclose.Result) -> None:
        search, final = Run.open(found.run).table.all()
        assert (search.role, final.role) == ("search", "final")
        assert not (found.run / "trials" / "0" / "weights.safetensors").exists()
        assert search.genotype == final.genotype == found.genotype.choices
        assert found.metrics["trial"] == final.number
        assert final.genotype["width"] < 12

    def test_a_final_training_cannot_be_left_out(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="final.networks is 0, but what the space 'anew' finds is trained anew"):
            self.cases[0].run(tmp_path / "run", self.name, settings={"final.networks": 0})
        assert not (tmp_path / "run").exists()
