"""Convolutions that a network calls as functions: no layers, so nothing can take their place."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

from eclose.spaces.relaxing.relaxable import KINDS
from eclose.spaces.trace import Example, copied, run

_FUNCTIONS = {
    f"conv{kind}{axes}d": f"nn.Conv{kind.title().replace('_', '')}{axes}d"
    for kind in ("", "_transpose")
    for axes in (1, 2, 3)
}
"""Functions, and the layers that do the same."""


def functional_convolutions(model: nn.Module, example: Example) -> dict[str, list[str]]:
    """Which functions are called from which modules, by path, when the example runs.

    Not those of layers, nor those whose filters are buffers: nothing is to be learned about these.
    """
    twin = copied(model)
    paths = {module: path for path, module in twin.named_modules()}
    fixed = set(twin.buffers())
    found: dict[str, list[str]] = {}

    def called(module: nn.Module | None, name: str) -> None:
        # What has an architecture of its own is searched already.
        if module in paths and not isinstance(module, KINDS["conv"]) and not hasattr(module, "arch_parameters"):
            names = found.setdefault(paths[module], [])
            names.extend([name] if name not in names else [])

    def tell(name: str, weight: object) -> None:
        if weight not in fixed:
            called(running[-1] if running else None, name)

    with _running_modules() as running, _Calls(tell):
        run(twin, example)
    return found


def told(found: Mapping[str, list[str]]) -> str:
    """Functions and where they are called, in words."""
    places = [
        f"F.{name} in {repr(path) if path else 'the network itself'}" for path, names in found.items() for name in names
    ]
    return ", ".join([*places[:4], f"{len(places) - 4} more"] if len(places) > 5 else places)


def layers_instead(found: Mapping[str, list[str]]) -> str:
    """The layers that would do the same."""
    return ", ".join(sorted({_FUNCTIONS[name] for names in found.values() for name in names}))


class _Calls(TorchFunctionMode):
    """Tells of every convolution that is called as a function, and of its weight."""

    def __init__(self, tell: Callable[[str, object], None]) -> None:
        super().__init__()
        self.tell = tell

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if (name := getattr(func, "__name__", "")) in _FUNCTIONS:
            self.tell(name, args[1] if len(args) > 1 else (kwargs or {}).get("weight"))
        return func(*args, **(kwargs or {}))


@contextmanager
def _running_modules() -> Iterator[list[nn.Module]]:
    """The modules that are running, the innermost last."""
    running: list[nn.Module] = []

    def enter(module: nn.Module, _: object) -> None:
        running.append(module)

    def leave(*_: object) -> None:
        running.pop()

    hooks = [register_module_forward_pre_hook(enter), register_module_forward_hook(leave, always_call=True)]
    try:
        yield running
    finally:
        for hook in hooks:
            hook.remove()
