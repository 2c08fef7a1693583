"""What a checkpoint contains, and how it becomes one file: tensors in safetensors, all else as JSON in its header."""

import json
import os
import re
from pathlib import Path
from typing import Any, TypedDict

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from eclose.errors import RunError
from eclose.runs.files import atomic_path, fits_memory


class TrainingState(TypedDict):
    """All that the rest of a training depends on, but for what follows from its seed and its number of steps."""

    progress: dict[str, Any]  # epochs, steps and seconds done, the curve so far, the best value
    loss_sum: Tensor  # of the epoch under way
    model: dict[str, Tensor]
    step: dict[str, Any]  # optimisers, and whatever else a step keeps
    best: dict[str, Tensor] | None  # weights with the best validation value
    average: Any  # averaged weights, where ``train.ema`` asks for them


def save_state(path: Path, state: Any) -> None:
    """Write nested dicts, lists, numbers, texts and tensors, atomically."""
    tensors: dict[str, Tensor] = {}
    header = json.dumps(_pack(state, tensors))
    with atomic_path(path) as temporary:
        _save(tensors, temporary, {"state": header})


def load_state(path: Path, device: torch.device | str = "cpu") -> Any:
    """Inverse of :func:`save_state`."""
    way_out = "delete it, and `eclose resume` trains that part again from its start"
    tensors, metadata = _load(path, device, way_out)
    try:
        return _unpack(json.loads(metadata["state"]), tensors)
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise RunError(f"{path} is damaged ({error!r}): {way_out}") from None


def load_progress(path: Path) -> dict[str, Any]:
    """How far the training of a checkpoint has come, without reading its tensors."""
    if not path.is_file():
        raise RunError(f"{path} is missing")
    try:
        with safe_open(path, "pt") as file:
            packed = json.loads((file.metadata() or {})["state"])
        progress = next(value for key, value in packed["dict"] if key == "progress")
        return dict(_unpack(progress, {}))
    except Exception as error:  # whatever stands in a file
        raise RunError(f"{path} is no checkpoint of a training ({error!r})") from None


def save_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write named tensors (a ``state_dict``), atomically."""
    with atomic_path(path) as temporary:
        _save(tensors, temporary, metadata or {})


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Named tensors, on the CPU."""
    way_out = "restore it from a copy, or delete it and result.json and `eclose resume` the run"
    return _load(path, "cpu", way_out)[0]


def _save(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
    # Tied parameters share storage, which safetensors refuses: each name gets its own copy.
    own = {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(own, path, {"format": "pt", **metadata})
    except SafetensorError as error:
        if told := re.search(r"os error (\d+)", str(error)):
            raise OSError(int(told[1]), os.strerror(int(told[1])), str(path)) from None
        raise OSError(5, str(error), str(path)) from None


def _load(path: Path, device: torch.device | str, way_out: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    if not path.is_file():
        raise RunError(f"{path} is missing: the run has not got that far, or the folder was changed")
    if not fits_memory(path.stat().st_size):
        raise RunError(f"{path} is larger than the memory of this machine: {way_out}")
    try:
        with safe_open(path, "pt", device=str(device)) as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise RunError(f"{path} is damaged ({error}): {way_out}") from None


def _pack(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        name = f"t{len(tensors)}"
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, dict):
        return {"dict": [[_pack(k, tensors), _pack(v, tensors)] for k, v in value.items()]}
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [_pack(item, tensors) for item in value]}
    assert value is None or isinstance(value, (bool, int, float, str)), f"{type(value)} in a checkpoint"
    return value


def _unpack(value: Any, tensors: dict[str, Tensor]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {_unpack(k, tensors): _unpack(v, tensors) for k, v in content}
    items = [_unpack(item, tensors) for item in content]
    return tuple(items) if kind == "tuple" else items
