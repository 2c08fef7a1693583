"""A device that every machine has: it computes as the CPU does, and refuses what a GPU refuses.

Its tensors say that they lie on ``meta``, a name that torch knows everywhere, and hold their values in memory. An
operation on tensors of both devices fails, as it would on a GPU. What makes the CPU wait for the device, and copies
between the two, are written down: a CUDA graph allows none of them.
"""

import contextlib
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.contracts.cases import AROUND as HERE

DEVICE = torch.device("meta")
AROUND = replace(HERE, device=DEVICE)

_CPU = torch.device("cpu")
_COPIES = {"_to_copy", "copy_", "_foreach_copy_"}  # may have both devices
_INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_"}  # may have indices of the CPU
_WAITS = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "bincount", "equal"}
_TOGETHER = {"cat", "stack"}  # numbers of the CPU become no part of them


class Elsewhere(Tensor):
    """A tensor of that device, whose ``values`` lie in memory."""

    values: Tensor

    @staticmethod
    def __new__(cls, values: Tensor) -> "Elsewhere":
        """With the sizes and strides of ``values``."""
        layout: dict[str, Any] = {"strides": values.stride(), "storage_offset": values.storage_offset()}
        made: Elsewhere = Tensor._make_wrapper_subclass(cls, values.size(), **layout, dtype=values.dtype, device=DEVICE)
        made.values = values
        return made

    def __repr__(self, **options: Any) -> str:
        return f"Elsewhere({self.values!r})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """One operation."""
        return _computed(func, args, kwargs or {}, [])

    __torch_function__ = torch._C._disabled_torch_function_impl


@cache
def _known(func: Any) -> tuple[str, list[int], list[str]]:
    """The name of an operation, and which of its arguments it gives back: by place, by name."""
    schema = func._schema
    written = [
        (place, each) for place, each in enumerate(schema.arguments) if each.alias_info and each.alias_info.is_write
    ]
    given_back = any(each.alias_info and each.alias_info.is_write for each in schema.returns)
    places = [place for place, each in written if not each.kwarg_only] if given_back else []
    names = [each.name for _, each in written if each.kwarg_only] if given_back else []
    return schema.name.removeprefix("aten::"), places, names


def _computed(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], notes: list[str]) -> Any:
    device = kwargs.get("device")
    made_here = device is not None and torch.device(device) == DEVICE
    tensors = list(_tensors((*args, *kwargs.values())))
    ours = sum(type(each) is Elsewhere for each in tensors)
    if not ours and not made_here:
        return func(*args, **kwargs)
    name, places, names = _known(func)
    _check(name, args, kwargs, tensors, ours)
    _note(name, args, tensors, ours, device, notes)
    inside = {key: _unwrapped(value) for key, value in kwargs.items()}
    if device is not None:
        inside["device"] = _CPU
    result = func(*map(_unwrapped, args), **inside)
    if torch.Tag.inplace_view in func.tags:
        with no_dispatch():
            func(*args, **kwargs)  # the sizes of the tensor itself
    if places or names:
        given = [*(args[place] for place in places), *(kwargs[key] for key in names)]
        return given[0] if len(given) == 1 else tuple(given)
    if device is not None and not made_here:  # to the CPU
        return result.clone()
    return _wrapped(result)


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _unwrapped(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_unwrapped, value))
    return value.values if isinstance(value, Elsewhere) else value


def _wrapped(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_wrapped, value))
    return Elsewhere(value.resolve_conj().resolve_neg()) if isinstance(value, Tensor) else value


def _check(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], tensors: list[Tensor], ours: int) -> None:
    generator = kwargs.get("generator")
    if generator is not None and generator.device != DEVICE:
        raise RuntimeError(f"{name}: a generator of the {generator.device} draws for the device")
    if ours == len(tensors) or name in _COPIES:
        return
    others = [each for each in tensors if type(each) is not Elsewhere]
    if name in _INDEXED and type(args[0]) is Elsewhere:
        others = [each for each in others if not any(each is index for index in args[1])]
    if others := [each for each in others if each.ndim or name in _TOGETHER]:
        shapes = ", ".join(str(tuple(each.shape)) for each in others)
        raise RuntimeError(f"{name}: tensors of the CPU {shapes} among those of the device")


def _note(name: str, args: tuple[Any, ...], tensors: list[Tensor], ours: int, device: Any, notes: list[str]) -> None:
    """Copies between the devices, and waits."""
    crosses = name in (*_COPIES, *_INDEXED) and ours < len(tensors)
    crosses = crosses or (name == "_to_copy" and device is not None and (ours > 0) != (torch.device(device) == DEVICE))
    masked = name in _INDEXED and any(index is not None and index.dtype == torch.bool for index in args[1])
    if crosses or masked or name in _WAITS:
        own = [frame for frame in traceback.extract_stack() if "/eclose/" in frame.filename]
        where = f" in {own[-1].filename.rpartition('/eclose/')[2]}:{own[-1].lineno}: {own[-1].line}" if own else ""
        notes.append(f"{name}{where}")


class _Operations(TorchDispatchMode):
    def __init__(self, notes: list[str]) -> None:
        super().__init__()
        self.notes = notes

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(func, args, kwargs or {}, self.notes)


class _Functions(TorchFunctionMode):
    """What torch would answer for ``meta`` without asking."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.tensor, torch.as_tensor) and not isinstance(args[0], Tensor):
            made = func(_numbers(args[0]), *args[1:], **{**kwargs, "device": _CPU})
            return made.to(kwargs["device"]) if kwargs.get("device") is not None else made
        if args and isinstance(args[0], Elsewhere):
            if func is Tensor.new_tensor:
                return torch.tensor(*args[1:], **{"dtype": args[0].dtype, **kwargs, "device": _CPU}).to(DEVICE)
            if func is Tensor.data_ptr:
                return args[0].values.data_ptr()
            if func is Tensor.tolist:
                return args[0].cpu().tolist()
        return func(*args, **kwargs)


def _numbers(value: Any) -> Any:
    """Those that lie in lists of tensors."""
    if isinstance(value, (list, tuple)):
        return [_numbers(each) for each in value]
    return value.cpu().tolist() if isinstance(value, Elsewhere) else value


def _autocast(known: Callable[..., bool]) -> Callable[..., bool]:
    return lambda *kind: kind != (DEVICE.type,) and known(*kind)


@contextlib.contextmanager
def elsewhere() -> Iterator[list[str]]:
    """There is such a device while the block lasts; the list has every wait and every copy."""
    notes: list[str] = []
    known, future = torch.is_autocast_enabled, torch.__future__
    before = future.get_swap_module_params_on_conversion()
    future.set_swap_module_params_on_conversion(True)  # what is moved stays the same object, as on a GPU
    try:
        with patch("torch.is_autocast_enabled", _autocast(known)), _Functions(), _Operations(notes):
            yield notes
    finally:
        future.set_swap_module_params_on_conversion(before)
