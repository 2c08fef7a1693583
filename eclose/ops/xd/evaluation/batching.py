"""What XD-operations make of their parameters: at once for all that are alike, or kept while nothing changes.

Inside a pass parameters do not change. This is a promise of whoever opens it (``with eclose.one_pass(model)``): nothing
looks whether it is kept.
"""

import contextlib
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from eclose.ops.kernels import traced, wrapped
from eclose.ops.xd.evaluation.prepare import Prepared

KEPT_WISHES = 4
"""How much is kept of a maker, the latest: inputs of many sizes would fill the memory."""


class Maker(Protocol):
    """A module that has entries, and makes something from them."""

    def entries(self) -> list[Tensor]:
        """All that anything is made from."""

    def made(self, makers: Sequence[Any], wish: Hashable) -> list[Any]:
        """What each of these makers, all like this one, wishes for."""


class Pass:
    """What was made since a pass began. Makers of one group are expected to wish for the same."""

    def __init__(self, groups: Iterable[Sequence[Maker]]) -> None:
        self.groups = {maker: group for group in groups for maker in group}
        self.made: dict[Hashable, dict[Maker, Any]] = {}

    def give(self, maker: Maker, wish: Hashable, *, trained: bool, captured: bool) -> Any:
        """Made for the whole group when the first of it asks; ``captured``: in a CUDA graph, which has its own."""
        group, made = self.groups[maker], self.made
        key, untrained = ((group[0], wish, kind, captured) for kind in (trained, False))
        if trained and untrained in made:
            return _alone(maker, wish)  # a checkpoint comes back to it, and differentiates what it holds by itself
        if key not in made:
            with contextlib.nullcontext() if trained else _without_gradients():
                made[key] = dict(zip(group, maker.made(group, wish), strict=True))

            def forget(_: Tensor) -> None:
                made.pop(key, None)

            for one in made[key].values() if trained else ():
                # What a backward pass went through is gone: the next forward pass makes it anew.
                _differentiated(one).register_hook(forget)
        return made[key][maker]


_passes: ContextVar[dict[Maker, Pass] | None] = ContextVar("passes", default=None)
_kept: WeakKeyDictionary[Any, tuple[list[Tensor], dict[Hashable, Any]]] = WeakKeyDictionary()  # entries, what was made


@contextlib.contextmanager
def passing(groups: Iterable[Sequence[Maker]]) -> Iterator[None]:
    """A pass of these makers, in this thread."""
    new = Pass(groups)
    token = _passes.set({**(_passes.get() or {}), **dict.fromkeys(new.groups, new)})
    try:
        yield
    finally:
        _passes.reset(token)
        new.made.clear()


def give(maker: Maker, wish: Hashable, *, keep: bool = True) -> Any:
    """What a maker wishes for; ``keep``: for the next time, where there are no derivatives."""
    entries = maker.entries()
    if traced() or any(map(wrapped, entries)):  # a program for many calls, or tensors without values of their own
        return _alone(maker, wish)
    trained = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in entries)
    captured = entries[0].is_cuda and torch.cuda.is_current_stream_capturing()
    current = (_passes.get() or {}).get(maker)
    if trained:
        _kept.pop(maker, None)  # soon of other values, and training needs the memory
        # A checkpoint counts what is saved: it must make everything again, as it did at first.
        if torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
            return _alone(maker, wish)
    elif keep and not captured and not (current and entries[0].is_cuda):  # to compare values is to wait for the GPU
        return _unchanged(maker, wish, entries)
    return current.give(maker, wish, trained=trained, captured=captured) if current else _alone(maker, wish)


def _alone(maker: Maker, wish: Hashable) -> Any:
    return maker.made([maker], wish)[0]


def _unchanged(maker: Maker, wish: Hashable, entries: list[Tensor]) -> Any:
    before, made = _kept.get(maker, ([], {}))
    with _without_gradients():
        # Values, not versions: there are ways to write to a tensor that torch does not count.
        if len(before) != len(entries) or not all(map(_same, entries, before)):
            before, made = [tensor.detach().clone() for tensor in entries], {}
        if wish not in made:
            made = {**dict([*made.items()][1 - KEPT_WISHES :]), wish: _alone(maker, wish)}
            _kept[maker] = before, made  # as a whole: other threads may be reading it
    return made[wish]


@contextlib.contextmanager
def _without_gradients() -> Iterator[None]:
    with torch.inference_mode(False), torch.no_grad():  # a training may come to use what is made, too
        yield


def _same(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and one.device == other.device and torch.equal(one, other)


def _differentiated(made: Tensor | Prepared) -> Tensor:
    """A tensor that has a gradient once a backward pass has come by."""
    tensors = [made] if isinstance(made, Tensor) else [*made.shifts, *made.outer, *made.filters, *made.inner]
    return next(tensor for tensor in tensors if tensor.requires_grad)
