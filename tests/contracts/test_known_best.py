"""A toy problem whose best architecture is known: whatever moves an architecture by gradients must find it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from eclose.config import Config
from eclose.engine import make_strategy
from eclose.signature import Signature
from eclose.spaces import ContinuousSpace, Genotype, spaces
from eclose.train import Training
from tests.contracts.cases import AROUND, Arrays, Case, registered
from tests.contracts.test_strategy import WAYS

BEST = 1


def one_channel_tells() -> Arrays:
    """Of three channels two are noise."""
    rng = np.random.default_rng(0)
    y = np.arange(96) % 2
    x = rng.normal(size=(96, 3, 6))
    x[:, BEST, :3] += 2 * (2 * y[:, None] - 1)
    return {"x": x.astype(np.float32), "y": y}


class Listening(nn.Module):
    """A linear layer of ``sum_i softmax(a)_i x_i``; at the start it listens to the first channel."""

    def __init__(self, signature: Signature) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.tensor([1.0, 0.0, 0.0]))
        self.output = nn.Linear(signature.sizes[0], signature.outputs)

    def arch_parameters(self) -> list[nn.Parameter]:
        return [self.a]

    def forward(self, x: Tensor) -> Tensor:  # (batch, 3, points)
        """``(batch, outputs)``."""
        return self.output(torch.einsum("c,bcp->bp", self.a.softmax(0), x))


class OfOneChannel(nn.Linear):
    """A linear layer of one channel."""

    def __init__(self, signature: Signature, channel: int) -> None:
        super().__init__(signature.sizes[0], signature.outputs)
        self.channel = channel

    def forward(self, x: Tensor) -> Tensor:
        """``(batch, outputs)``."""
        return super().forward(x[:, self.channel])


class ListeningSpace(ContinuousSpace):
    """Which of three channels is listened to."""

    name = "listening"
    strategy = "supernet"
    takes_backbone = False
    trained_anew = True

    def __init__(self, config: Config) -> None:
        pass

    def start(self, signature: Signature) -> Genotype:
        return Genotype(self.name, {"channel": 0})

    def build(self, genotype: Genotype, signature: Signature) -> nn.Module:
        return OfOneChannel(signature, genotype.choices["channel"])

    def supernet(self, genotype: Genotype, signature: Signature) -> nn.Module:
        return Listening(signature)

    def derive(self, genotype: Genotype, network: nn.Module) -> tuple[Genotype, None]:
        return Genotype(self.name, {"channel": int(network.a.argmax())}), None


@pytest.mark.parametrize("optimiser", ["adam", "sgd", "relative_adam", "relative_sgd"])
@pytest.mark.parametrize("way", WAYS)
def test_the_best_architecture_is_found(way: str, optimiser: str) -> None:
    rates = {"adam": 0.1, "sgd": 1.0, "relative_adam": 0.2, "relative_sgd": 0.2}
    own = {"strategy.optimiser": optimiser, "strategy.learning_rate": rates[optimiser], "strategy.weight_decay": 0.0}
    with registered(spaces, listening=ListeningSpace):
        search = Case(one_channel_tells, {**WAYS[way], **own, "train.epochs": 8}).search(space="listening")
        strategy = make_strategy(search.config)
        torch.manual_seed(0)
        ready = strategy.prepare(search, search.start, AROUND, "search")
        config = replace(ready.config, train=replace(ready.config.train, keep="last"))
        Training(ready.model, ready.task, ready.step, config, AROUND, ready.phases).run()
        found, _ = strategy.found(search, search.start, ready.model)
    assert found.choices == {"channel": BEST}
    shares = ready.model.get_submodule("network").a.softmax(0)
    assert shares[BEST] > 0.6
