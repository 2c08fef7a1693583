"""The dense matrices of many XD-operations, made in the same few operations and kept while nothing changes."""

import threading
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Protocol

import torch
from torch import Tensor

from eclose.ops.kaleidoscope import Kaleidoscope, dense


class Member(Protocol):
    """Whatever has Kaleidoscope matrices."""

    def parts(self) -> list[Kaleidoscope]:
        """The matrices, in a fixed order."""


class Together:
    """Gives each of its members the dense forms of its Kaleidoscope matrices.

    The first member that asks in a forward pass has them made for all that asked in the pass before; they find theirs
    ready. With gradients a set is given out once, since it belongs to one backward pass; without them it is kept until
    the entries change. A CUDA graph under capture gets its own: what is kept could be gone when it is replayed.
    """

    def __init__(self, members: Iterable[Member] = ()) -> None:
        self.members = {id(member): member for member in members}
        self._asked: set[int] = set()  # in this pass
        self._ready: dict[int, tuple[object, list[Tensor]]] = {}
        self._lock = threading.RLock()

    def dense(self, member: Member) -> list[Tensor]:
        """``(n, n, 2)`` of every part of a member."""
        me, parts = id(member), member.parts()
        if me not in self.members or torch.compiler.is_compiling():  # a replica, or a program that serves many calls
            return dense([part.matrix for part in parts])
        once = torch.is_grad_enabled() and any(part.entries.requires_grad for part in parts)
        if not once and parts[0].entries.is_cuda and torch.cuda.is_current_stream_capturing():
            return dense([part.matrix for part in parts])
        with self._lock:
            if me not in self._ready or self._ready[me][0] != _state(member):
                self._make(me)
            self._asked.add(me)
            return (self._ready.pop(me) if once else self._ready[me])[1]

    def forget(self) -> None:
        """Make all anew when they are next asked for."""
        with self._lock:
            self._ready = {}

    def _make(self, me: int) -> None:
        now = {me}
        if me in self._asked:  # another pass begins
            now, self._asked, self._ready = self._asked, set(), {}
        alike: dict[object, list[int]] = defaultdict(list)
        for key in self.members:  # in a fixed order
            if key in now:
                entries = self.members[key].parts()[0].entries
                alike[entries.device, entries.dtype].append(key)
        for keys in alike.values():
            matrices = iter(dense([part.matrix for key in keys for part in self.members[key].parts()]))
            for key in keys:
                member = self.members[key]
                self._ready[key] = _state(member), [next(matrices) for _ in member.parts()]
        for matrix in self._ready[me][1]:
            if matrix.requires_grad:
                # What nobody has asked for by the end of a backward pass must not be used in another one.
                matrix.register_hook(lambda _: self.forget())
                break

    def __getstate__(self) -> dict[str, Any]:
        return {"members": list(self.members.values())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["members"])  # type: ignore[misc]


def _state(member: Member) -> object:
    """What matrices made now depend on."""
    entries = [part.entries for part in member.parts()]
    seen = [(id(entry), entry.data_ptr(), entry._version, entry.requires_grad) for entry in entries]
    return torch.is_grad_enabled(), seen
