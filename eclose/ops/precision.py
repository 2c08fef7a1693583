"""Ways out of mixed precision, and of TF32, for the few products that everything else depends on."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch


def full_precision(device_type: str) -> contextlib.AbstractContextManager[Any]:
    """Autocast switched off, where it is on; nothing otherwise, as ``torch.export`` cannot save a switch."""
    if torch.is_autocast_enabled(device_type):
        return torch.autocast(device_type, enabled=False)
    return contextlib.nullcontext()


def all_digits(device_type: str) -> contextlib.AbstractContextManager[Any]:
    """Neither autocast nor TF32, which keeps ten binary digits of every factor: torch allows it in convolutions.

    A backward pass is as it is outside. An exported program computes as its user's torch does.
    """
    return full_precision(device_type) if torch.compiler.is_compiling() else _all_digits(device_type)


@contextlib.contextmanager
def _all_digits(device_type: str) -> Iterator[None]:
    cudnn = torch.backends.cudnn
    with contextlib.ExitStack() as stack:
        stack.enter_context(full_precision(device_type))
        switched(stack, torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "highest")
        switched(stack, lambda: cudnn.allow_tf32, lambda value: setattr(cudnn, "allow_tf32", value), False)
        yield


def switched(stack: contextlib.ExitStack, get: Callable[[], Any], put: Callable[[Any], None], value: Any) -> None:
    """A switch of torch, set until the stack is left."""
    try:
        before = get()
    except RuntimeError:  # the user has set it by the newer one of torch's two ways: a choice of his own
        return
    stack.callback(put, before)
    put(value)
