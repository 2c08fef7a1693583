"""How tensors flow through a network: an example runs through a copy of it, and every layer and function is noted.

The network's own code runs, so that it may do what it likes: branch, loop, write in place, call functions.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

from eclose.errors import ConfigError
from eclose.spaces.difference import tensors_in
from eclose.spaces.trace import Example, copied, run

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
CHANNEL_NORMS = (
    *(nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d),
    *(nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d),
)
LAYERS = {*CONVOLUTIONS, *TRANSPOSED, *CHANNEL_NORMS, nn.Linear, nn.GroupNorm, nn.LayerNorm}
"""Layers that are noted as one; exactly these: a class made of one may do something else with its weights."""

_DROPOUTS = {"dropout", "alpha_dropout", "feature_alpha_dropout"}  # with a factor for every number

Repeat = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Value:
    """What a layer or a function made of earlier values."""

    number: int  # by the time at which it was made
    name: str  # of the function, or the class of the layer
    path: str  # of the layer; empty: a function
    within: str  # the module that was running
    sources: tuple[int, ...]
    shape: torch.Size
    products: float  # multiplications
    written: bool = False  # in place
    repeat: Repeat | None = None  # the function and what it was given besides its one source, where that is no tensor

    @property
    def size(self) -> int:
        """Numbers of a sample."""
        return self.shape.numel()


@dataclass
class Kept:
    """What a training step keeps for its way back: a value, or what a function made for itself."""

    owner: int  # the value
    size: float  # numbers of a sample
    savers: set[int] = field(default_factory=set)  # the values whose functions read it on the way back


@dataclass(frozen=True)
class Call:
    """A module that ran: what it was given, what it gave, and the values that were made meanwhile."""

    path: str
    sources: tuple[int, ...]
    alone: bool  # whether it was given one thing, by its place
    output: int
    first: int
    end: int


@dataclass
class Recording:
    """All that happened."""

    values: list[Value] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    uses: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    times: Counter[str] = field(default_factory=Counter)  # that modules ran
    outputs: set[int] = field(default_factory=set)


def class_of(layer: nn.Module) -> type[nn.Module]:
    """Its own, of which a parametrization makes another one."""
    return type(layer).__bases__[0] if parametrize.is_parametrized(layer) else type(layer)


def computes_weights(layer: nn.Module) -> bool:
    """Whether it is a layer whose weights are made of others (weight norm, pruning): its functions are noted then."""
    return class_of(layer) in LAYERS and not _own(layer) <= {"weight", "bias"}


def recorded(network: nn.Module, example: Example) -> Recording:
    """What happens when the example runs through the network."""
    if any(isinstance(module, torch.jit.ScriptModule) for module in network.modules()):
        raise ConfigError(
            "the network has a torch.jit.ScriptModule, whose layers cannot be seen: "
            "hand in the plain module that it was made from"
        )
    twin = copied(network)
    with FlopCounterMode(display=False) as counter:
        recorder = _Recorder(twin, counter)
        with recorder, torch.autograd.graph.saved_tensors_hooks(recorder.keep, lambda tensor: tensor):
            output = run(twin, example, gradients=True)
    recorder.recording.kept.extend(recorder.kept())
    recorder.recording.outputs.update(recorder.sources(output))
    return recorder.recording


class _Recorder(TorchFunctionMode):
    def __init__(self, network: nn.Module, counter: FlopCounterMode) -> None:
        super().__init__()
        self.recording, self.counter = Recording(), counter
        self.made: dict[int, int] = {}  # values by the ids of their tensors
        self.alive: list[Tensor] = []  # so that no id is given twice
        self.running: list[tuple[str, tuple[int, ...], bool, int]] = []
        self.layer: tuple[nn.Module, float] | None = None  # that runs, and what was counted before
        self.owners: dict[int, int] = {}  # the last value in every storage
        self.saved: dict[int, tuple[Tensor, set[int]]] = {}  # storages that are kept, and the values that read them
        self.dropped: list[Kept] = []  # factors of dropout, which there are in training only
        self.of_weights = False  # whether a function runs that is given nothing of the example
        self.weights = {_storage(tensor) for tensor in (*network.parameters(), *network.buffers())}
        for path, module in network.named_modules():
            module.register_forward_pre_hook(partial(self._enter, path), with_kwargs=True)
            module.register_forward_hook(partial(self._leave, path))

    def sources(self, given: Any) -> tuple[int, ...]:
        """The values among what was given, each once."""
        return tuple(dict.fromkeys(self.made[id(one)] for one in tensors_in(given) if id(one) in self.made))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.layer is not None:
            return func(*args, **kwargs)
        if not (sources := self.sources([args, kwargs])):
            self.of_weights = True
            output = func(*args, **kwargs)
            self.of_weights = False
            made = list(tensors_in(output))
            self.weights |= {_storage(tensor) for tensor in made}
            self.alive += made
            return output
        before = self.counter.get_total_flops()
        versions = [(one, one._version) for one in tensors_in([args, kwargs])]
        output = func(*args, **kwargs)
        name = getattr(func, "__name__", "").strip("_")
        if name in _DROPOUTS and output is args[0] and kwargs.get("p", 0.5) > 0:
            self.dropped.append(Kept(sources[0], output.numel(), {len(self.recording.values)}))
        written = [one for one, version in versions if one._version != version]
        products = (self.counter.get_total_flops() - before) / 2
        changed = written if output is None else [one for one in tensors_in(output) if _is_new(one, versions)]
        others = list(tensors_in([args[1:], kwargs]))
        repeat = (func, tuple(args[1:]), kwargs) if len(sources) == 1 and not others else None
        self._note(name, "", sources, changed, products, bool(written), repeat)
        return output

    def _note(
        self,
        name: str,
        path: str,
        sources: tuple[int, ...],
        tensors: Iterable[Tensor],
        products: float,
        written: bool = False,
        repeat: Repeat | None = None,
    ) -> None:
        number = len(self.recording.values)
        for tensor in tensors:
            if self.made.get(id(tensor)) == number:
                continue
            if len(self.recording.values) == number:
                within = self.running[-1][0] if self.running else ""
                value = Value(number, name, path, within, sources, tensor.shape, products, written, repeat)
                self.recording.values.append(value)
                for source in sources:
                    self.recording.uses[source].append(number)
            self.made[id(tensor)] = number
            self.owners[_storage(tensor)] = number
            self.weights.discard(_storage(tensor))
            self.alive.append(tensor)

    def keep(self, tensor: Tensor) -> Tensor:
        """What autograd tells of a tensor that it keeps."""
        if not self.of_weights:
            self.saved.setdefault(_storage(tensor), (tensor, set()))[1].add(len(self.recording.values))
        return tensor

    def kept(self) -> list[Kept]:
        """All of it that belongs to the example: no weights, and no statistics of a batch, which are vectors."""
        found = list(self.dropped)
        for storage, (tensor, savers) in self.saved.items():
            if storage in self.weights or (storage not in self.owners and tensor.ndim < 2):
                continue
            size = tensor.untyped_storage().nbytes() / torch.float32.itemsize
            found.append(Kept(self.owners.get(storage, min(savers)), size, savers))
        return found

    def _enter(self, path: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.layer is not None:
            return
        if not path:
            self._note("input", "", (), tensors_in([args, kwargs]), 0.0)
        self.recording.times[path] += 1
        alone = len(args) == 1 and not kwargs
        self.running.append((path, self.sources([args, kwargs]), alone, len(self.recording.values)))
        if _is_layer(module):
            self.layer = module, self.counter.get_total_flops()

    def _leave(self, path: str, module: nn.Module, _: tuple[Any, ...], output: Any) -> None:
        if self.layer is not None:
            if module is not self.layer[0]:
                return
            products = (self.counter.get_total_flops() - self.layer[1]) / 2
            self.layer = None
            sources, alone, first = self.running.pop()[1:]
            self._note(type(module).__name__, path, sources, tensors_in(output), products)
        else:
            sources, alone, first = self.running.pop()[1:]
        if len(made := self.sources(output)) == 1:
            self.recording.calls.append(Call(path, sources, alone, made[0], first, len(self.recording.values)))


def _is_new(tensor: Tensor, versions: list[tuple[Tensor, int]]) -> bool:
    """Whether a function made or changed it; some give back what they were given, such as dropout without training."""
    return all(tensor is not one or one._version != version for one, version in versions)


def _is_layer(module: nn.Module) -> bool:
    return type(module) in LAYERS and _own(module) <= {"weight", "bias"}


def _own(layer: nn.Module) -> set[str]:
    return {name for name, _ in layer.named_parameters()}


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
