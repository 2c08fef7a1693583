"""Strategy ``random``: networks drawn from the space, each trained on its own (einspace paper, 4.2)."""

from collections.abc import Sequence

import torch

from eclose.config import Config
from eclose.engine.sampled_search import check_selection, new_among, share_of_search, space_after
from eclose.engine.selection import Selection
from eclose.engine.strategy import Search, Strategy, strategies
from eclose.runs import Trial
from eclose.spaces import Genotype, Space


@strategies.register("random")
class RandomSearch(Strategy):
    """Draw --trials networks and keep the best; their mean is what random sampling finds."""

    trials = 100
    selection: Selection

    def __init__(self, *, halving: int = 3, prefilter: int = 0, learn: float = 0.0) -> None:
        self.selection = Selection(("error",), halving, prefilter, learn)

    def check(self, config: Config, space: Space) -> None:
        """See :class:`Strategy`."""
        check_selection(self.selection, config, space)

    def share(self, search: Search, trials: Sequence[Trial]) -> float:
        """See :class:`Strategy`."""
        return share_of_search(search, trials)

    def ask(self, search: Search, trials: Sequence[Trial], generator: torch.Generator) -> Genotype | None:
        """A network that was not drawn before; None when all are tried, or nothing new comes up."""
        if len(trials) >= search.config.budget.trials:
            return None
        space = space_after(trials, search, self.selection)
        return new_among(trials, lambda: space.sample(search.task.signature, generator), "drawn")
