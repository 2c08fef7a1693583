"""What many XD-operations need of their parameters: made in the same few operations, or kept while nothing changes."""

import contextlib
import threading
import weakref
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from eclose.ops.kernels import traced, wrapped
from eclose.ops.xd.evaluation.prepare import GatedTaps

KEPT_WISHES = 4
"""How much is kept of a member, the latest: inputs of many sizes would fill the memory."""


class Member(Protocol):
    """Whatever has entries, and something made from them."""

    def entries(self) -> list[Tensor]:
        """All that anything is made from."""

    def likeness(self) -> Hashable:
        """Members that are equal in this can be served together."""

    def made(self, members: Sequence[Any], wish: Hashable) -> list[Any]:
        """What these members, all like this one, wish for."""


class Together:
    """Gives each of its members what it wishes for and is made from its entries.

    What is trained is made for one member at a time, so that members may be run and differentiated in any
    order; between :meth:`begin` and :meth:`end` it is there already, made together for all members that asked for
    theirs in the pass before. Without derivatives it is kept, until an entry has another value.
    """

    def __init__(self, members: Iterable[Member] = ()) -> None:
        # Weak: members hold this, and a network that is dropped should be gone at once, with its weights.
        self.members = weakref.WeakValueDictionary({id(member): member for member in members})
        self._asked: dict[tuple[int, Hashable], None] | None = None  # by whom for what, in the pass that has begun
        self._before: dict[tuple[int, Hashable], None] = {}
        self._ready: dict[tuple[int, Hashable], tuple[object, Any]] = {}  # the state of the entries, what was made
        self._kept: dict[int, tuple[list[Tensor], dict[Hashable, Any]]] = {}  # entries and what was made of them
        self._lock = threading.Lock()

    def give(self, member: Member, wish: Hashable, *, keep: bool = True) -> Any:
        """What a member wishes for; ``keep``: for the next time, where there are no derivatives."""
        key, entries = (id(member), wish), member.entries()
        # A program for many calls, a replica, or tensors without values of their own
        if traced() or key[0] not in self.members or any(map(wrapped, entries)):
            return member.made([member], wish)[0]
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in entries):
            self._kept.pop(key[0], None)  # soon of other values, and training needs the memory
            if self._asked is not None:
                self._asked[key] = None
            state, made = self._ready.get(key, (None, None))
            return made if state == _state(entries) else member.made([member], wish)[0]
        self._ready.pop(key, None)  # a checkpoint may come back to it, and differentiates what it holds by itself
        if not keep or (entries[0].is_cuda and torch.cuda.is_current_stream_capturing()):
            return member.made([member], wish)[0]  # what is kept could be gone when the graph is replayed
        return self._unchanged(member, wish, entries)

    def begin(self) -> None:
        """A forward pass, which one backward pass follows, begins."""
        self._asked = {}
        alike: dict[tuple[Hashable, Hashable], list[tuple[Member, object]]] = defaultdict(list)
        for key, wish in self._before:
            member = self.members.get(key)
            entries = [] if member is None else member.entries()
            if member is not None and any(tensor.requires_grad for tensor in entries):
                alike[wish, member.likeness()].append((member, _state(entries)))
        for (wish, _), wishing in alike.items():
            members, states = zip(*wishing, strict=True)
            for member, state, made in zip(members, states, members[0].made(members, wish), strict=True):
                self._ready[id(member), wish] = state, made

    def end(self) -> None:
        """The pass and its backward pass are over."""
        self._before, self._asked, self._ready = self._asked or {}, None, {}

    @contextlib.contextmanager
    def one_pass(self) -> Iterator[None]:
        """Around a forward pass and the one backward pass that follows it."""
        try:
            self.begin()
            yield
        finally:
            self.end()

    def _unchanged(self, member: Member, wish: Hashable, entries: list[Tensor]) -> Any:
        with self._lock, torch.inference_mode(False), torch.no_grad():  # a training may come to use what is kept too
            before, made = self._kept.get(id(member), ([], {}))
            # Values, not versions: there are ways to write to a tensor that torch does not count.
            if len(before) != len(entries) or not all(map(_same, entries, before)):
                before, made = [tensor.detach().clone() for tensor in entries], {}
                self._kept[id(member)] = before, made
            if wish not in made:
                if len(made) == KEPT_WISHES:
                    del made[next(iter(made))]
                made[wish] = member.made([member], wish)[0]
            return made[wish]

    def add(self, member: Member) -> None:
        """One more member."""
        self.members[id(member)] = member

    def __getstate__(self) -> dict[str, Any]:
        return {}  # a copy belongs to the copies of its members, which join it: not to those that stay behind

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]


def all_of(model: nn.Module) -> list[Together]:
    """Those of a network."""
    candidates = (getattr(module, "together", None) for module in model.modules())
    return list(dict.fromkeys(together for together in candidates if isinstance(together, Together)))


@contextlib.contextmanager
def one_pass(matrices: Sequence[Together]) -> Iterator[None]:
    """Around a forward pass and the one backward pass that follows it."""
    with contextlib.ExitStack() as stack:
        for together in matrices:
            stack.enter_context(together.one_pass())
        yield


def _state(entries: list[Tensor]) -> object:
    """Another one where there are other tensors, other values in them, or others are trained."""
    return [(id(tensor), tensor.data_ptr(), tensor._version, tensor.requires_grad) for tensor in entries]


def _same(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and one.device == other.device and torch.equal(one, other)


def gated_taps_of_each(form: GatedTaps, weights: Sequence[Tensor], gates: Sequence[Tensor]) -> list[Tensor]:
    """Those of operations alike, which may be without gates, at once: as more outputs of one."""
    if len(weights) == 1:
        return [form.of(weights[0], *gates)]
    return [*_Each.apply(form, len(weights), *weights, *gates)]


class _Each(torch.autograd.Function):
    """Keeps nothing but its inputs. Operations that were left out of a pass get no derivatives, rather than zeros."""

    @staticmethod
    def forward(ctx: Any, form: GatedTaps, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        # Torch, asked to save them, would refuse a change of any, even of one that was used in its new state only.
        ctx.form, ctx.count, ctx.tensors = form, count, tensors
        ctx.versions = [tensor._version for tensor in tensors]
        ctx.set_materialize_grads(False)
        return _together(form, count, tensors)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> Any:
        saved, again = ctx.tensors, torch.is_grad_enabled()
        given = {place: cotangent for place, cotangent in enumerate(cotangents) if cotangent is not None}
        gradients: list[Tensor | None] = [None] * len(saved)
        if not given:
            return None, None, *gradients
        places = [start + place for start in range(0, len(saved), ctx.count) for place in given]
        if any(saved[place]._version != ctx.versions[place] for place in places):
            raise RuntimeError("a weight or C was written to between a forward pass and its backward pass: do it after")
        with torch.enable_grad():
            views = [_view(saved[place], again) for place in places]
            outputs = _together(ctx.form, len(given), views)
        slopes = torch.autograd.grad(outputs, views, [*given.values()], create_graph=again)
        for place, slope in zip(places, slopes, strict=True):
            gradients[place] = slope
        return None, None, *gradients


def _together(form: GatedTaps, count: int, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """As many weights, and as many gates behind them if there are any, as those of one operation."""
    weight, *gates = (torch.cat([*tensors[start : start + count]]) for start in range(0, len(tensors), count))
    return form.of(weight, *gates).chunk(count)


def _view(tensor: Tensor, again: bool) -> Tensor:
    """With a derivative of its own, which can be differentiated again where that is asked for."""
    return tensor.view_as(tensor) if again and tensor.requires_grad else tensor.detach().requires_grad_()
