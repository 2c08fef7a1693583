"""Arrays, lists and texts from a pickle that is read, not run: nothing in it is imported, made or called.

The usual archives of CIFAR are pickles. This reads the few instructions that such files consist of and refuses any
other; of all things that a pickle may name, only those that put an array of bytes together are known, and even for
them nothing of numpy is called before the whole is known to be an array of bytes.
"""

import io
import math
import pickletools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MODULES = ("numpy", "numpy.core.multiarray", "numpy._core.multiarray")
_VALUES = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, Callable[[], Any]] = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_SKIPPED = ("PROTO", "FRAME")


class _Mark:
    """Where a group of values begins."""


class _Name:
    """What a file names; it stands for itself only."""

    def __init__(self, module: str, name: str) -> None:
        if (module, name) != ("_codecs", "encode") and (
            module not in _MODULES or name not in ("_reconstruct", "ndarray", "dtype")
        ):
            raise ValueError(f"it names {module}.{name}, which is not data")
        self.name = name


class _Array:
    """An array before and after its state is known."""

    state: Any = None


class _Type:
    """A type of numbers, by its code."""

    def __init__(self, code: Any) -> None:
        self.code = code


def read_pickle(data: bytes) -> Any:
    """The content; a ``ValueError`` says what is not data. Text of Python 2 comes as latin-1 text."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    try:
        for opcode, argument, _ in pickletools.genops(io.BytesIO(data)):
            if opcode.name == "STOP":
                return _finished(stack.pop())
            _obey(opcode.name, argument, stack, memo)
    except (IndexError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError(f"it is damaged ({error!r})") from None
    raise ValueError("it is cut off")


def _obey(name: str, argument: Any, stack: list[Any], memo: dict[int, Any]) -> None:
    if name in _VALUES:
        stack.append(argument)
    elif name in _CONSTANTS:
        stack.append(_CONSTANTS[name])
    elif name in _EMPTY:
        stack.append(_EMPTY[name]())
    elif name == "MARK":
        stack.append(_Mark())
    elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
        memo[argument] = stack[-1]
    elif name == "MEMOIZE":
        memo[len(memo)] = stack[-1]
    elif name in ("GET", "BINGET", "LONG_BINGET"):
        stack.append(memo[argument])
    elif name in _TUPLES:
        count = _TUPLES[name]
        stack[-count:] = [tuple(stack[-count:])]
    elif name not in _SKIPPED:
        _put_together(name, argument, stack)


def _put_together(name: str, argument: Any, stack: list[Any]) -> None:
    if name == "TUPLE":
        stack.append(tuple(_group(stack)))
    elif name == "LIST":
        stack.append(_group(stack))
    elif name in ("DICT", "SETITEMS", "SETITEM"):
        items = [stack.pop(-2), stack.pop()] if name == "SETITEM" else _group(stack)
        if name == "DICT":
            stack.append({})
        stack[-1].update(zip(items[::2], items[1::2], strict=True))
    elif name in ("APPENDS", "APPEND"):
        items = [stack.pop()] if name == "APPEND" else _group(stack)
        stack[-1].extend(items)
    elif name in ("GLOBAL", "STACK_GLOBAL"):
        module, what = argument.split(" ", 1) if name == "GLOBAL" else (stack.pop(-2), stack.pop())
        stack.append(_Name(module, what))
    elif name == "REDUCE":
        arguments, what = stack.pop(), stack.pop()
        stack.append(_reduced(what, arguments))
    elif name == "BUILD":
        state = stack.pop()
        if isinstance(stack[-1], _Array):
            stack[-1].state = state
        elif not isinstance(stack[-1], _Type):
            raise ValueError("it sets the state of something that is no array")
    else:
        raise ValueError(f"it has the instruction {name}, which data does not need")


def _group(stack: list[Any]) -> list[Any]:
    place = max(place for place, value in enumerate(stack) if isinstance(value, _Mark))
    group = stack[place + 1 :]
    del stack[place:]
    return group


def _reduced(what: Any, arguments: Any) -> Any:
    kind = what.name if isinstance(what, _Name) else ""
    if kind == "_reconstruct":
        return _Array()
    if kind == "dtype":
        return _Type(arguments[0])
    if kind == "encode" and arguments[1:] in (("latin1",), ("latin-1",)):
        return arguments[0].encode("latin-1")
    raise ValueError("it calls something that is not data")


def _finished(value: Any) -> Any:
    """With arrays in the place of what stood for them, at the top and in dictionaries and lists there."""
    if isinstance(value, _Array):
        return _bytes_of(value)
    if isinstance(value, dict):
        return {key: _finished(item) for key, item in value.items()}
    if isinstance(value, (_Name, _Type, _Mark)):
        raise ValueError("it holds more than data")
    return value


def _bytes_of(array: _Array) -> NDArray[np.uint8]:
    _, shape, kind, fortran, raw = array.state
    raw = raw.encode("latin-1") if isinstance(raw, str) else raw
    if not isinstance(kind, _Type) or kind.code not in ("u1", b"u1") or not isinstance(raw, bytes):
        raise ValueError("it holds an array of something else than bytes")
    if not all(isinstance(size, int) and size >= 0 for size in shape) or math.prod(shape) != len(raw):
        raise ValueError("it holds an array whose shape does not fit its content")
    return np.frombuffer(raw, np.uint8).reshape(shape, order="F" if fortran else "C")
