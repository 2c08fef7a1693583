"""The dense matrices of many XD-operations: made in the same few operations, or kept while nothing changes."""

import contextlib
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from eclose.ops.kaleidoscope import Kaleidoscope, dense


class Member(Protocol):
    """Whatever has Kaleidoscope matrices."""

    def parts(self) -> list[Kaleidoscope]:
        """The matrices, in a fixed order."""


class Together:
    """Gives each of its members the dense forms of its Kaleidoscope matrices.

    Matrices that are trained are made for one member at a time, so that members may be run and differentiated in any
    order; between :meth:`begin` and :meth:`end` they are there already, made together for all members that asked for
    theirs in the pass before. Without derivatives they are kept, until an entry has another value.
    """

    def __init__(self, members: Iterable[Member] = ()) -> None:
        self.members = {id(member): member for member in members}
        self._asked: set[int] | None = None  # by whom, in the pass that has begun
        self._before: set[int] = set()
        self._ready: dict[int, list[Tensor]] = {}
        self._kept: dict[int, tuple[list[Tensor], list[Tensor]]] = {}  # entries and matrices
        self._lock = threading.Lock()

    def dense(self, member: Member) -> list[Tensor]:
        """``(n, n, 2)`` of every part of a member."""
        me, parts = id(member), member.parts()
        if me not in self.members or torch.compiler.is_compiling():  # a replica, or a program that serves many calls
            return _made(parts)
        if torch.is_grad_enabled() and any(part.entries.requires_grad for part in parts):
            if self._asked is not None:
                self._asked.add(me)
            return self._ready[me] if me in self._ready else _made(parts)
        if parts[0].entries.is_cuda and torch.cuda.is_current_stream_capturing():
            return _made(parts)  # what is kept could be gone when the graph is replayed
        return self._unchanged(me, parts)

    def begin(self) -> None:
        """A forward pass, which one backward pass follows, begins."""
        self._asked = set()
        alike: dict[object, list[int]] = defaultdict(list)
        for key, member in self.members.items():
            entries = member.parts()[0].entries
            if key in self._before and entries.requires_grad:
                alike[entries.device, entries.dtype].append(key)
        for keys in alike.values():
            groups = [self.members[key].parts() for key in keys]
            matrices = iter(_made([part for parts in groups for part in parts]))
            self._ready |= {key: [next(matrices) for _ in parts] for key, parts in zip(keys, groups, strict=True)}

    def end(self) -> None:
        """The pass and its backward pass are over."""
        self._before, self._asked, self._ready = self._asked or set(), None, {}

    def _unchanged(self, me: int, parts: list[Kaleidoscope]) -> list[Tensor]:
        with self._lock:
            entries, matrices = self._kept.get(me, ([], []))
            # Values, not versions: there are ways to write to a tensor that torch does not count.
            if not entries or any(not _same(part.entries, old) for part, old in zip(parts, entries, strict=True)):
                with torch.inference_mode(False), torch.no_grad():  # a training may come to use them too
                    entries, matrices = [part.entries.detach().clone() for part in parts], _made(parts)
                self._kept[me] = entries, matrices
            return matrices

    def __getstate__(self) -> dict[str, Any]:
        return {"members": list(self.members.values())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["members"])  # type: ignore[misc]


def all_of(model: nn.Module) -> list[Together]:
    """Those of a network."""
    found = (getattr(module, "together", None) for module in model.modules())
    return list(dict.fromkeys(together for together in found if isinstance(together, Together)))


@contextlib.contextmanager
def one_pass(matrices: Sequence[Together]) -> Iterator[None]:
    """Around a forward pass and the one backward pass that follows it."""
    try:
        for together in matrices:
            together.begin()
        yield
    finally:
        for together in matrices:
            together.end()


def _made(parts: Iterable[Kaleidoscope]) -> list[Tensor]:
    return dense([part.matrix for part in parts])


def _same(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and one.device == other.device and torch.equal(one, other)
