"""Strategy ``train``: no search, the start of the space is trained."""

from collections.abc import Sequence

import torch
from torch import nn

from eclose.engine.strategy import Prepared, Search, plain_training, strategies
from eclose.runs import Trial
from eclose.spaces import Genotype
from eclose.train import Surroundings


@strategies.register("train")
class TrainStart:
    """No search: train the network the space starts with; --trials N does it with N seeds."""

    selection = None

    def check(self, network: nn.Module) -> None:
        """Every network can be trained."""

    def ask(self, search: Search, trials: Sequence[Trial], generator: torch.Generator) -> Genotype | None:
        """The start, as often as the budget says."""
        return search.start if len(trials) < max(1, search.config.budget.trials) else None

    def prepare(self, search: Search, genotype: Genotype, around: Surroundings) -> Prepared:
        """The plain network."""
        return plain_training(search, genotype, around)

    def found(self, search: Search, genotype: Genotype, model: nn.Module) -> tuple[Genotype, nn.Module]:
        """Nothing else than was asked."""
        return genotype, model
