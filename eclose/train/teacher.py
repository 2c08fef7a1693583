"""Attention transfer (Zagoruyko and Komodakis 2017; NOS paper, equation (6)): a network learns where a teacher looks.

A stage of a network is all that it computes at one size of its features; it ends with the last of them. Stages of
student and teacher belong together where their sizes do (:func:`matched`).
"""

import contextlib
import math
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from eclose.errors import ConfigError
from eclose.signature import Signature

Sizes = tuple[int, ...]


class Place(NamedTuple):
    """Where in a pass features are: behind the ``number``-th call of a module."""

    module: str
    number: int


def attention(features: Tensor) -> Tensor:  # (batch, channels, *space)
    """``(batch, *space)``: the sum of squares over the channels, in single precision at least."""
    return features.to(torch.promote_types(features.dtype, torch.float32)).square().sum(1)


def distance(student: Tensor, teacher: Tensor) -> Tensor:  # (batch, *space) each
    """``(batch,)``: half of how far two maps are from each other, each divided by its length."""
    return torch.linalg.vector_norm((of_length_one(student) - of_length_one(teacher)).flatten(1), dim=1) / 2


def of_length_one(maps: Tensor) -> Tensor:  # (batch, *space)
    """Each map divided by its length; one that is zero stays so."""
    return nn.functional.normalize(maps.flatten(1)).view(maps.shape)


def resized(maps: Tensor, sizes: Sequence[int]) -> Tensor:  # (batch, *space)
    """``(batch, *sizes)``, by averages over windows."""
    if maps.shape[1:] == tuple(sizes):
        return maps
    pools: dict[int, type[nn.Module]] = {1: nn.AdaptiveAvgPool1d, 2: nn.AdaptiveAvgPool2d, 3: nn.AdaptiveAvgPool3d}
    pooled: Tensor = pools[len(sizes)](tuple(sizes))(maps[:, None])
    return pooled[:, 0]


@dataclass
class _Call:
    """One call of a module while stages are looked for."""

    module: nn.Module
    place: Place
    inside: "_Call | None"
    output: object = None

    def sizes(self, axes: int) -> Sizes | None:
        """Of features ``(batch, channels, *space)``; None of anything else."""
        features = isinstance(self.output, Tensor) and self.output.dim() == axes + 2
        return tuple(self.output.shape[2:]) if features else None  # type: ignore[attr-defined]


def stages(model: nn.Module, signature: Signature) -> dict[Sizes, Place]:
    """Where each stage of an assembled network ends, by the sizes of its features.

    A module that changes the sizes, such as a block of stride 2, belongs to the stage of its output as a whole; only
    those that are lists of others (``nn.Sequential``), and the network itself, are looked into.
    """
    ends: dict[Sizes, Place] = {}
    calls = _calls(model, signature)
    answer = calls[-1].output
    for call in calls:
        sizes = call.sizes(signature.axes)
        if sizes is None or call.output is answer or math.prod(sizes) == 1:
            continue
        around, within = call.inside, True
        while around is not None and within:
            open_ = isinstance(around.module, nn.Sequential) or around.output is answer
            within = open_ or around.sizes(signature.axes) == sizes
            around = around.inside
        if within:
            ends[sizes] = call.place
    return ends


def _calls(model: nn.Module, signature: Signature) -> list[_Call]:
    """The calls of all modules of a network in the order in which they end; its own is the last."""
    network, open_calls, ended = model.get_submodule("network"), list[_Call](), list[_Call]()
    counted, names = Counter[str](), {module: f"network.{name}".rstrip(".") for name, module in network.named_modules()}
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    kind = torch.long if signature.tokens else torch.float32

    def begin(module: nn.Module, inputs: object) -> None:
        inside = open_calls[-1] if open_calls else None
        open_calls.append(_Call(module, Place(names[module], counted[names[module]]), inside))
        counted[names[module]] += 1

    def end(module: nn.Module, inputs: object, output: object) -> None:
        call = open_calls.pop()
        call.output = output
        ended.append(call)

    modes = {module: module.training for module in model.modules()}
    hooks = [module.register_forward_pre_hook(begin) for module in names]
    hooks += [module.register_forward_hook(end) for module in names]
    model.eval()
    try:
        with torch.no_grad(), torch.random.fork_rng([]):
            model(torch.zeros(signature.input_shape(1), dtype=kind, device=device))
    finally:
        for hook in hooks:
            hook.remove()
        for module, mode in modes.items():
            module.training = mode
    return ended


def matched(student: dict[Sizes, Place], teacher: dict[Sizes, Place]) -> list[tuple[Place, Place]]:
    """Ends of stages that belong together: each of the student's with that of the teacher's whose sizes are nearest.

    Sizes that differ by a factor of two or more along an axis are those of another stage.
    """
    pairs = []
    for sizes, place in student.items():
        near = min(teacher, key=lambda others: _apart(sizes, others), default=None)
        if near is not None and _apart(sizes, near) < 1:
            pairs.append((place, teacher[near]))
    if not pairs:
        ours, theirs = (", ".join("x".join(map(str, sizes)) for sizes in ends) or "none" for ends in (student, teacher))
        raise ConfigError(
            f"no stage of the teacher (features of {theirs} points) has about the sizes of one of the network "
            f"({ours}): choose another teacher, or leave it out"
        )
    return pairs


def _apart(sizes: Sizes, others: Sizes) -> float:
    """Halvings between two sizes, along the axis where there are most."""
    return max(abs(math.log2(a / b)) for a, b in zip(sizes, others, strict=True))


@contextlib.contextmanager
def watching(model: nn.Module, places: Sequence[Place]) -> Iterator[dict[Place, Tensor]]:
    """The features that the next pass has at these places."""
    features: dict[Place, Tensor] = {}
    counted = Counter[str]()

    def keep(name: str, output: Tensor) -> None:
        features[Place(name, counted[name])] = output
        counted[name] += 1

    hooks = [
        model.get_submodule(name).register_forward_hook(lambda _module, _inputs, output, name=name: keep(name, output))
        for name in {place.module for place in places}
    ]
    try:
        yield features
    finally:
        for hook in hooks:
            hook.remove()


class Teacher:
    """A trained network that stays as it is. ``weight``: how much the distance from its attention counts."""

    def __init__(self, model: nn.Module, signature: Signature, weight: float) -> None:
        self.model = model.eval().requires_grad_(False)
        self.signature, self.weight = signature, weight
        self.stages = stages(model, signature)


class Lesson:
    """One network under a teacher: equation (6) on every batch."""

    def __init__(self, teacher: Teacher, student: nn.Module) -> None:
        self.teacher, self.student = teacher, student
        pairs = matched(stages(student, teacher.signature), teacher.stages)
        self.ours, self.theirs = [ours for ours, _ in pairs], [theirs for _, theirs in pairs]
        # Of both levels of a bilevel search, whose second order looks at a batch more than once.
        self._seen: deque[tuple[Tensor, int, list[Tensor]]] = deque(maxlen=2)
        self._capturing = False

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What the student makes of ``x``, and the weighted loss of every sample ``(batch,)``."""
        output, apart = self._pass(x)
        return output, self.teacher.weight * apart

    @torch.no_grad()
    def maps(self, x: Tensor) -> list[tuple[Tensor, Tensor]]:  # (batch, *space) each
        """The attention of student and teacher at every stage, in eval mode, of length one."""
        training = self.student.training
        self.student.eval()
        pairs = self._maps(x)[1]
        self.student.train(training)
        return [(of_length_one(ours), of_length_one(theirs)) for ours, theirs in pairs]

    def distance(self, x: Tensor) -> float:
        """The mean of the loss, without its weight, in eval mode."""
        return float(sum(distance(ours, theirs).mean() for ours, theirs in self.maps(x)))

    def _pass(self, x: Tensor) -> tuple[Tensor, Tensor]:
        output, maps = self._maps(x)
        return output, torch.stack([distance(ours, theirs) for ours, theirs in maps]).sum(0)

    def _maps(self, x: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """The output, and the attention of student and teacher at every stage, in the sizes of the student's."""
        guide = self._attention(x)
        with watching(self.student, self.ours) as features:
            output = self.student(x)
        maps = [attention(features[place]) for place in self.ours]
        return output, [(ours, resized(theirs, ours.shape[1:])) for ours, theirs in zip(maps, guide, strict=True)]

    def _attention(self, x: Tensor) -> list[Tensor]:
        """The teacher's maps, computed once a batch."""
        capturing = x.is_cuda and torch.cuda.is_current_stream_capturing()
        if capturing != self._capturing:  # what a graph computes is not there before its replay, and old after it
            self._capturing = capturing
            self._seen.clear()
        for known, version, maps in self._seen:
            if known is x and version == x._version:
                return maps
        with torch.no_grad(), watching(self.teacher.model, self.theirs) as features:
            self.teacher.model(x)
            maps = [attention(features[place]) for place in self.theirs]
        self._seen.append((x, x._version, maps))
        return maps
