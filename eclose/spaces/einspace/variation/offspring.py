"""What mutation and crossover may return, and why they return nothing."""

from collections import Counter
from dataclasses import replace

from eclose.errors import EcloseError
from eclose.signature import Signature
from eclose.spaces.einspace.grammar import Tree, count
from eclose.spaces.einspace.normal_form import digest
from eclose.spaces.einspace.sampling.settings import Settings
from eclose.spaces.einspace.survey import Misfit, Survey
from eclose.spaces.einspace.terminals.state import input_state

TRIES = 200


class NoChild(EcloseError):
    """A mutation or crossover that found nothing within its tries."""


class Offspring:
    """What children of a tree must be: valid, within the limits, other networks than their parents."""

    def __init__(self, tree: Tree, signature: Signature, settings: Settings) -> None:
        self.state = input_state(signature)
        self.survey = Survey(tree, self.state)
        self.limits = self._limits(tree, settings)
        self.known = {digest(tree)}
        self.refused: Counter[str] = Counter()

    def _limits(self, tree: Tree, settings: Settings) -> Settings:
        """The settings; a parent that exceeds them may have children that are not larger than itself."""
        own = self.survey.cost
        return replace(
            settings,
            nodes=max(settings.nodes, count(tree).nodes),
            parameters=max(settings.parameters, own.parameters),
            flops=max(settings.flops, own.flops),
            activations=max(settings.activations, own.activations),
            depth=max(settings.depth, self.survey.depth),
        )

    def accepts(self, child: Tree) -> bool:
        """Whether ``child`` may be returned; if not, the reason is counted."""
        try:
            survey = Survey(child, self.state)
        except Misfit:
            self.refused["shapes that do not fit"] += 1
            return False
        limits, cost = self.limits, survey.cost
        within = (
            survey.depth <= limits.depth
            and count(child).nodes <= limits.nodes
            and cost.parameters <= limits.parameters
            and cost.flops <= limits.flops
            and cost.activations <= limits.activations
        )
        if not within:
            self.refused["over the limits"] += 1
        elif digest(child) in self.known:
            self.refused["the network of a parent"] += 1
        else:
            return True
        return False

    def reason(self) -> str:
        """Why there is no child."""
        reasons = ", ".join(f"{times} times {reason}" for reason, times in self.refused.most_common())
        return f"no child in {self.refused.total()} tries: {reasons or 'no two subtrees are exchangeable'}"
