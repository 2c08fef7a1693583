"""Strategy ``random``: networks drawn from the space, each trained on its own (einspace paper, 4.2)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from eclose.config import Config
from eclose.engine.learning import space_after
from eclose.engine.novelty import new_among
from eclose.engine.selection import Selection
from eclose.engine.strategy import Prepared, Search, plain_training, strategies
from eclose.runs import Trial
from eclose.spaces import Genotype
from eclose.train import Surroundings


@strategies.register("random")
class RandomSearch:
    """Draw --trials networks and keep the best; their mean is what random sampling finds."""

    trials = 100

    def __init__(
        self, *, halving: int = 3, final: int = 1, final_epochs: int = 0, prefilter: int = 0, learn: float = 0.0
    ) -> None:
        self.selection = Selection(("error",), halving, final, final_epochs, prefilter, learn)

    def check(self, network: nn.Module) -> None:
        """See :class:`Strategy`."""
        self.selection.check()

    def ask(self, search: Search, trials: Sequence[Trial], generator: torch.Generator) -> Genotype | None:
        """A network that was not drawn before; None when all are tried, or nothing new comes up."""
        if len(trials) >= search.config.budget.trials:
            return None
        space = space_after(trials, search, self.selection)
        return new_among(trials, lambda: space.sample(search.task.signature, generator), "drawn")

    def effective(self, config: Config) -> dict[str, Any]:
        """Options that follow from others, as they are used."""
        return {"final_epochs": self.selection.final_epochs or config.train.epochs}

    def prepare(self, search: Search, genotype: Genotype, around: Surroundings) -> Prepared:
        """The plain network."""
        return plain_training(search, genotype, around)

    def found(self, search: Search, genotype: Genotype, model: nn.Module) -> tuple[Genotype, nn.Module]:
        """Nothing else than was asked."""
        return genotype, model
