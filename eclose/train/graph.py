"""A gradient step captured once as a CUDA graph and replayed: small networks then wait for no launches."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version

from eclose.errors import ConfigError
from eclose.train.module_hooks import Verbs
from eclose.train.step import Step

_WARM_UP = 3  # steps before the capture: libraries choose their algorithms, optimisers make their state
_MOST = 8  # graphs of a network whose shapes change


class _Captured(NamedTuple):
    graph: torch.cuda.CUDAGraph
    total: Tensor


class Capturable(Step, Protocol):
    """A step whose kernels can be replayed."""

    model: nn.Module
    device: torch.device
    verbs: Verbs

    @property
    def groups(self) -> list[dict[str, Any]]:
        """Of all its optimisers."""

    def zero_grad(self) -> None:
        """Forget all gradients."""


class GraphStep:
    """Replays forward, backward and optimiser of a step, as of a :class:`GradientStep`, for the usual batch.

    Batches of another size (the last of an epoch) take the ordinary step. The numbers are those of the
    ordinary step: the same kernels run on the same memory. Another graph is captured once other parameters are
    trained than before, as after the warm-up of a supernet. A network whose shapes change has a graph for each set of
    shapes that stays for a few steps; the latest ones are kept. A network that cannot be captured is refused, or, if
    the graph is not ``required``, takes the ordinary step.
    """

    def __init__(self, step: Capturable, *, required: bool = True) -> None:
        self.step, self.required = step, required
        self._make_capturable()
        self._stream = torch.cuda.Stream(step.device)
        self._graphs: OrderedDict[Hashable, _Captured] = OrderedDict()
        self._shapes: Hashable = ()
        # Those of other optimisers, too: an operation that they do not move any more may run as another one.
        self._parameters: list[Tensor] = list(step.model.parameters())
        self._trained: list[Tensor] = []
        self._seen = 0
        self._refused = False
        self._x = self._y = torch.empty(0)
        self._batch = 0
        self._lasting = False  # whether batches come in the same two tensors, which then need no copies

    def __call__(self, x: Tensor, y: Tensor, batch: int) -> Tensor:
        """See :class:`Step`."""
        trained = [parameter for parameter in self._parameters if parameter.requires_grad]
        if list(map(id, trained)) != list(map(id, self._trained)):
            self._graphs.clear()
            self._trained, self._seen = trained, 0
        verbs = self.step.verbs
        if (shapes := verbs.shape_key()) != self._shapes:
            self._seen = 0
        self._shapes = shapes  # also an equal one: a graph keeps it, and with it what the graph reads
        if self._refused:
            return self.step(x, y, batch)
        if shapes not in self._graphs and self._seen < _WARM_UP:
            return self._warm_up(x, y, batch)
        if x.shape != self._x.shape or batch != self._batch:
            return self.step(x, y, batch)
        captured = self._graphs.get(shapes) or self._capture()
        if captured is None:
            return self.step(x, y, batch)
        self._graphs.move_to_end(shapes)
        if x is not self._x:
            self._x.copy_(x)
        if y is not self._y:
            self._y.copy_(y)
        captured.graph.replay()
        increment_version(self._trained)  # they moved unseen by torch; caches look at their versions
        if not verbs.static_shapes:
            verbs.after_step()
        return captured.total

    def set_rate(self, factor: float, epochs: float) -> None:
        """See :class:`Step`."""
        self.step.verbs.before_step(epochs)
        torch.add(self._fixed, self._scheduled, alpha=factor, out=self._rates)

    def state_dict(self) -> dict[str, Any]:
        """See :class:`Step`."""
        return self.step.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See :class:`Step`; before the first step, as the graph keeps the addresses of the state."""
        assert not self._graphs
        self.step.load_state_dict(state)
        self._make_capturable()  # the state may be that of an ordinary step: one of several processes

    def _make_capturable(self) -> None:
        # A number would be frozen into the graph; a tensor is read at every replay. One for all groups: one launch.
        groups, device = self.step.groups, self.step.device
        self._rates = torch.tensor([float(group["lr"]) for group in groups], device=device)
        follow = [group.get("scheduled", True) for group in groups]
        bases = [float(group["base_lr"]) for group in groups]
        self._scheduled = torch.tensor(bases, device=device) * torch.tensor(follow, device=device)
        self._fixed = torch.where(torch.tensor(follow, device=device), 0.0, self._rates)
        for group, rate in zip(groups, self._rates.unbind(), strict=True):
            group["lr"] = rate
            if "capturable" in group:
                group["capturable"] = True

    def _warm_up(self, x: Tensor, y: Tensor, batch: int) -> Tensor:
        if batch >= self._batch and not self._graphs:  # the usual batch is the largest; graphs keep where they read it
            self._lasting = x is self._x and y is self._y
            self._x, self._y, self._batch = x, y, batch
        self._seen += 1
        here = torch.cuda.current_stream(self.step.device)
        self._stream.wait_stream(here)
        with torch.cuda.stream(self._stream):
            total = self.step(x, y, batch)
        here.wait_stream(self._stream)
        return total

    def _capture(self) -> _Captured | None:
        graph, generator = torch.cuda.CUDAGraph(), torch.cuda.default_generators[self._stream.device.index]
        before = generator.clone_state()
        if not self._lasting and not self._graphs:
            self._x, self._y = self._x.clone(), self._y.clone()
        # Graphs share their memory: none needs what another has left there, but for the sum that it gives.
        pool = next((other.graph.pool() for other in self._graphs.values()), None)
        self.step.zero_grad()
        try:
            # Local: the thread that reads ahead may allocate pinned memory meanwhile.
            with torch.cuda.graph(graph, pool, self._stream, capture_error_mode="thread_local"):
                total = self.step(self._x, self._y, self._batch)
        except RuntimeError as error:
            generator.graphsafe_set_state(before)  # else torch may take the capture for not yet over and draw no more
            if isinstance(error, torch.OutOfMemoryError):
                raise
            if not self.required:
                self._refused = True
                return None
            reason = " ".join(str(error).split())[:200]
            raise ConfigError(
                f"this network cannot be captured as a CUDA graph ({reason}): leave train.graph out"
            ) from error
        while len(self._graphs) >= _MOST:
            self._graphs.popitem(last=False)
        self._graphs[self._shapes] = captured = _Captured(graph, total)
        return captured
