"""A way out of mixed precision for the few small products that everything else depends on."""

import contextlib
from typing import Any

import torch


def full_precision(device_type: str) -> contextlib.AbstractContextManager[Any]:
    """Autocast switched off, where it is on; nothing otherwise, as ``torch.export`` cannot save a switch."""
    if torch.is_autocast_enabled(device_type):
        return torch.autocast(device_type, enabled=False)
    return contextlib.nullcontext()
