"""A relaxed network runs once on the example before it is handed out: do its operations run, is it the same function?

Networks may do more with a layer than run it in its place: hold it in a list as well, or read its weight and sizes.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from eclose.backbones.reference import one_line
from eclose.errors import ConfigError
from eclose.ops.xd import XD
from eclose.spaces.architecture import freeze_architecture
from eclose.spaces.difference import difference
from eclose.spaces.trace import WAY_OUT, Example, copied, run

Made = dict[nn.Module, XD]
"""Operations by the modules whose places they take."""

_READ = "leave out layers whose weights or attributes the network reads itself, with select=..."


def rehearse(relaxed: nn.Module, made: Made, example: Example) -> Any:
    """The output of a relaxed network, all of whose operations run, and none of the modules they stand for.

    A copy runs, with its architecture frozen: that costs what the plain network costs.
    """
    idle = dict.fromkeys(operation.path for operation in made.values())
    twin = _guarded(relaxed, made)
    freeze_architecture(twin)
    try:
        output = run(twin, example, tuple(idle), lambda path, *_: idle.pop(path, None))
    except ConfigError as error:
        if (cause := error.__cause__) is None:
            raise
        owner = getattr(cause, "obj", None)  # of an attribute that is not there
        told = f"'{owner.path}' fails on the example: {one_line(cause)}" if isinstance(owner, XD) else str(error)
        raise ConfigError(f"once relaxed, {told}; {_READ}") from cause
    if idle:
        raise ConfigError(f"'{next(iter(idle))}' does not run any more once it is relaxed: {WAY_OUT}")
    return output


def check_same(ours: Any, theirs: Any, again: Callable[[], Any], precision: float) -> None:
    """Refuses outputs that differ by more than rounding, if the plain network gives the same ``again``."""
    found = difference(ours, theirs, precision)
    if found and not difference(again(), theirs, precision):
        raise ConfigError(f"relaxed, the network is another function: on the example it has {found}; {_READ}")


def _guarded(relaxed: nn.Module, made: Made) -> nn.Module:
    """A copy in which modules that operations stand for refuse to run, unless they were left in another place."""
    left = set(relaxed.modules())
    hooks = [
        module.register_forward_pre_hook(_refusal(operation.path))  # copied with the module
        for module, operation in made.items()
        if module not in left
    ]
    try:
        with torch.inference_mode(False):  # tensors of that mode count no versions, which a frozen architecture reads
            return copied(relaxed)
    finally:
        for hook in hooks:
            hook.remove()


def _refusal(path: str) -> Callable[..., None]:
    def hook(*_: object) -> None:
        raise ConfigError(
            f"'{path}' is run from where it cannot be replaced (a list, a dictionary, another object): "
            f"run it as '{path}' alone, or {WAY_OUT}"
        )

    return hook
