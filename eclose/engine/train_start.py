"""Strategy ``train``: no search, the start of the space is trained."""

from collections.abc import Sequence

import torch

from eclose.engine.strategy import Search, Strategy, strategies
from eclose.runs import Trial
from eclose.spaces import Genotype


@strategies.register("train")
class TrainStart(Strategy):
    """No search: train the network the space starts with; --trials N does it with N seeds."""

    def ask(self, search: Search, trials: Sequence[Trial], generator: torch.Generator) -> Genotype | None:
        """The start, as often as the budget says."""
        return search.start if len(trials) < max(1, search.config.budget.trials) else None
