"""Strategy ``bilevel``: weights on one half of the training samples, the architecture on the other (DARTS).

First order: the architecture moves along its own gradient. Second order: along the gradient after a step of the weights
that is only looked at, whose mixed derivative is a difference of two gradients. No pass keeps the graph of another, so
that the memory is that of one pass and of three copies of the weights.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from eclose.config import Config
from eclose.engine.gradient_search import GradientSearch, WarmUp, weight_optimiser
from eclose.engine.strategy import (
    Prepared,
    Role,
    Search,
    gradient_step,
    objective_for,
    plain_training,
    replayed,
    strategies,
)
from eclose.errors import ConfigError
from eclose.spaces import Genotype, Space
from eclose.spaces.architecture import architecture as split_parameters
from eclose.spaces.architecture import named_architecture
from eclose.tasks import Task
from eclose.train import GradientStep, Step, Surroundings, generator_for
from eclose.train.data import Feed
from eclose.train.parallel import sum_gradients
from eclose.train.seeds import reseed

_NEARBY = 0.01  # how far from the weights the two gradients of a difference are, as in DARTS


@strategies.register("bilevel")
class Bilevel(GradientSearch):
    """Weights and architecture take turns, each on its own half of the training samples (DARTS)."""

    samples = 4  # two in each half: norms cannot train on one

    def __init__(
        self,
        *,
        order: int = 1,
        optimiser: str = "adam",
        learning_rate: float = 0.0,
        momentum: float = 0.9,
        weight_decay: float = -1.0,
        scheduled: bool = False,
        warmup_epochs: float = 0.0,
    ) -> None:
        super().__init__(optimiser, learning_rate, momentum, weight_decay, scheduled, warmup_epochs)
        self.order = order

    def check(self, config: Config, space: Space) -> None:
        """See :class:`Strategy`; a second order where gradients can be subtracted from each other."""
        super().check(config, space)
        if self.order not in (1, 2):
            raise ConfigError(f"strategy.order is {self.order}, but must be 1 or 2")
        if self.order == 2 and config.train.precision == "float16":
            raise ConfigError("strategy.order=2 needs gradients as they are, which float16 scales: use bfloat16")

    def prepare(self, search: Search, genotype: Genotype, around: Surroundings, role: Role) -> Prepared:
        """The relaxed network and a step that reads the samples of the architecture by itself."""
        if role != "search":
            return plain_training(search, genotype, around)
        config, (task, held) = search.config, halves(search.task, search.config.run.seed)
        model = self.supernet(search, genotype, around)
        own = list(named_architecture(model).values())
        optimisers = weight_optimiser(model, config), self.architecture_optimiser(own)
        objective = objective_for(search, model, around)
        feed = Feed.of(held, config, around.seed, around.device, around.world, name="architecture")
        if self.order == 1:
            weights, architecture = (
                gradient_step(model, objective, [optimiser], config, genotype, around) for optimiser in optimisers
            )
            step: Step = BilevelStep(weights, architecture, feed, model)
        else:
            shared = (config.optimiser.clip, config.train.precision, around.device, around.world)
            first, second = (GradientStep(model, objective, [optimiser], *shared) for optimiser in optimisers)
            ahead = LookAhead(first, second, feed.seed)
            step = LookAheadStep(replayed(ahead, config, genotype, around), ahead, feed)
        return Prepared(model, WarmUp(step, own, self.warmup_epochs), task, config, lesson=objective.lesson)


def halves(task: Task, seed: int) -> tuple[Task, Task]:
    """The task on either half of its training samples, which follow from the seed; an odd one is left out."""
    half = len(task.train) // 2
    order = torch.randperm(len(task.train), generator=generator_for(seed, "halves"))
    first, second = (replace(task, train=task.train.select(part)) for part in (order[:half], order[half : 2 * half]))
    return first, second


class BilevelStep:
    """The architecture moves on a batch of its own, then the weights on the batch of the loop."""

    def __init__(self, weights: Step, architecture: Step, feed: Feed, model: nn.Module) -> None:
        self.weights, self.architecture, self.feed = weights, architecture, feed
        self.parameters = split_parameters(model)
        self.taken = 0  # batches of the feed

    def __call__(self, x: Tensor, y: Tensor, batch: int) -> Tensor:
        """See :class:`Step`."""
        if self.parameters.architecture[0].requires_grad:  # not in a warm-up
            with frozen(self.parameters.weights):
                self.architecture(*self.feed.batch(self.taken))
            self.taken += 1
        return self.weights(x, y, batch)

    def set_rate(self, factor: float, epochs: float) -> None:
        """See :class:`Step`."""
        self.weights.set_rate(factor, epochs)
        self.architecture.set_rate(factor, epochs)

    def state_dict(self) -> dict[str, Any]:
        """See :class:`Step`."""
        steps = {"weights": self.weights.state_dict(), "architecture": self.architecture.state_dict()}
        return {**steps, "taken": self.taken}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See :class:`Step`."""
        self.weights.load_state_dict(state["weights"])
        self.architecture.load_state_dict(state["architecture"])
        self.taken = state["taken"]


class LookAhead:
    """Moves the architecture along the gradient that it has after a step of the weights, then the weights.

    L is the loss on the samples of the weights w, whose rate is r; V is that on the samples of the architecture a. With
    ``w' = w - r dL/dw`` and ``u = r dV/dw(w')`` the gradient is ``dV/da(w') - d2L/(da dw) u``. The product is the
    difference of ``dL/da`` at ``w + e u`` and at ``w - e u``, divided by ``2 e``.

    All of it is one step, so that a CUDA graph can replay it.
    """

    def __init__(self, weights: GradientStep, architecture: GradientStep, seed: int) -> None:
        self.weights, self.architecture, self.seed = weights, architecture, seed
        self.model, self.device, self.verbs = weights.model, weights.device, weights.verbs
        self.held = (0, 0)  # samples of the architecture, which come last in a batch: here, and in all processes
        self.number = 0  # of the step, for what it draws
        self._draws = False  # whether the network draws numbers

    @property
    def groups(self) -> list[dict[str, Any]]:
        """Those of both optimisers."""
        return [*self.weights.groups, *self.architecture.groups]

    def __call__(self, x: Tensor, y: Tensor, batch: int) -> Tensor:
        """See :class:`Step`. Without samples of the architecture, as in a warm-up, only the weights move."""
        here, total = self.held
        own = len(x) - here
        mine = (x[:own], y[:own], batch)
        if here:
            self._move_architecture(mine, (x[own:], y[own:], total))
        return self.weights(*mine)

    def _move_architecture(self, batch: tuple[Tensor, Tensor, int], held: tuple[Tensor, Tensor, int]) -> None:
        """Weights and running statistics are as before it."""
        weights, own = self.weights.parameters, self.architecture.parameters
        looked_at = [*weights, *self.model.buffers()]
        before = [tensor.detach().clone() for tensor in looked_at]
        origin = before[: len(weights)]
        self._draw_the_same()
        with self._watched():
            self.weights.backward(*batch)
        _place(weights, origin, self._by_rate(), -1.0)
        self.weights.zero_grad()
        self.architecture.backward(*held)
        sum_gradients(weights, self.weights.world)
        direct, ahead = gradients(own), self._by_rate()
        length = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(ahead)))
        away = _NEARBY / length.clamp_min(torch.finfo(length.dtype).tiny)
        slopes = []
        with frozen(weights):
            for sign in (1.0, -1.0):
                _place(weights, origin, ahead, sign * away)
                self._draw_the_same()
                self.architecture.backward(*batch)
                slopes.append(gradients(own))
        with torch.no_grad():
            torch._foreach_copy_(looked_at, before)
        for parameter, gradient, above, below in zip(own, direct, *slopes, strict=True):
            parameter.grad = gradient - (above - below) * (length / (2 * _NEARBY))
        self.architecture.move()

    def _by_rate(self) -> list[Tensor]:
        """The gradients of the weights, each times its learning rate."""
        groups = self.weights.groups
        return [gradient * group["lr"] for group in groups for gradient in gradients(group["params"])]

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Notices whether a pass draws numbers on a GPU."""
        if self._captured():
            yield
            return
        before = self._drawn()
        yield
        self._draws = self._draws or self._drawn() != before

    def _drawn(self) -> int:
        """How far the generator of a GPU has come."""
        if self.device.type != "cuda":
            return 0
        index = torch.cuda.current_device() if self.device.index is None else self.device.index
        return int(torch.cuda.default_generators[index].get_offset())

    def _draw_the_same(self) -> None:
        """Looking ahead and both sides of the difference draw the same numbers: all are passes of one function."""
        if not self._captured():
            reseed(self.device, self.seed, "look-ahead", self.number)
        elif self._draws:
            raise RuntimeError("strategy.order=2 draws the same numbers again")

    def _captured(self) -> bool:
        return self.device.type == "cuda" and torch.cuda.is_current_stream_capturing()

    def zero_grad(self) -> None:
        """Forget all gradients."""
        self.weights.zero_grad()
        self.architecture.zero_grad()

    def set_rate(self, factor: float, epochs: float) -> None:
        """See :class:`Step`."""
        self.weights.set_rate(factor, epochs)
        self.architecture.set_rate(factor, epochs)

    def state_dict(self) -> dict[str, Any]:
        """See :class:`Step`."""
        return {"weights": self.weights.state_dict(), "architecture": self.architecture.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See :class:`Step`."""
        self.weights.load_state_dict(state["weights"])
        self.architecture.load_state_dict(state["architecture"])


class LookAheadStep:
    """Reads the samples of the architecture and hands both batches to a :class:`LookAhead`, perhaps a replayed one."""

    def __init__(self, step: Step, ahead: LookAhead, feed: Feed) -> None:
        self.step, self.ahead, self.feed = step, ahead, feed
        self.set_rate = step.set_rate
        self.taken = 0  # batches of the feed

    def __call__(self, x: Tensor, y: Tensor, batch: int) -> Tensor:
        """See :class:`Step`."""
        self.ahead.held = (0, 0)
        if self.ahead.architecture.parameters[0].requires_grad:  # not in a warm-up
            held_x, held_y, total = self.feed.batch(self.taken)
            self.ahead.held, self.ahead.number = (len(held_x), total), self.taken
            x, y = torch.cat((x, held_x)), torch.cat((y, held_y))
            self.taken += 1
        return self.step(x, y, batch)

    def state_dict(self) -> dict[str, Any]:
        """See :class:`Step`."""
        return {**self.step.state_dict(), "taken": self.taken}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See :class:`Step`."""
        self.step.load_state_dict(state)
        self.taken = state["taken"]


@contextlib.contextmanager
def frozen(parameters: Iterable[nn.Parameter]) -> Iterator[None]:
    """No gradients of these parameters while the block lasts."""
    moving = [parameter for parameter in parameters if parameter.requires_grad]
    for parameter in moving:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in moving:
            parameter.requires_grad_(True)


def gradients(parameters: Sequence[nn.Parameter]) -> list[Tensor]:
    """Those of the last pass; zero of a parameter that had no part in it."""
    return [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]


@torch.no_grad()
def _place(parameters: Sequence[nn.Parameter], before: Sequence[Tensor], step: Sequence[Tensor], factor: Any) -> None:
    """``before + factor * step``."""
    for parameter, origin, way in zip(parameters, before, step, strict=True):
        parameter.copy_(origin + factor * way)
