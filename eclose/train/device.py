"""The device a run uses, and the switches of torch that decide whether its numbers repeat."""

import contextlib
import os
from collections.abc import Iterator

import torch

from eclose.config import RunSection
from eclose.errors import ConfigError

PRECISIONS = {
    "float32": None,
    "tf32": None,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


def choose_device(name: str) -> torch.device:
    """``auto`` takes the GPU if there is one; under torchrun every process takes its own."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"unknown device '{name}'; use auto, cpu, cuda or cuda:N") from None
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device '{name}' is not supported; use auto, cpu, cuda or cuda:N")
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise ConfigError("no CUDA device is available here; use --device cpu")
        index = device.index if device.index is not None else int(os.environ.get("LOCAL_RANK", "0"))
        if index >= torch.cuda.device_count():
            raise ConfigError(f"there is no cuda:{index}, only {torch.cuda.device_count()} CUDA device(s)")
        torch.cuda.set_device(index)  # kernels of our own are launched on the current device
        return torch.device("cuda", index)
    return torch.device("cpu")


def device_answers(device: torch.device) -> bool:
    """Whether the device can be used. After some errors in kernels a process cannot use its GPU any more."""
    if device.type != "cuda":
        return True
    try:
        torch.cuda.synchronize(device)
    except RuntimeError:
        return False
    return True


def keep_freed_memory() -> None:
    """Has the process keep some 60 MB that it freed: a training step on a CPU would take them anew, page by page.

    glibc learns from the largest block below 32 MB that was ever freed how much to keep.
    """
    torch.empty(31 * 2**20, dtype=torch.uint8)


@contextlib.contextmanager
def torch_settings(section: RunSection, precision: str) -> Iterator[None]:
    """Threads, determinism and float32 precision as the run asks; what was set before is restored."""
    if precision not in PRECISIONS:
        raise ConfigError(f"train.precision is '{precision}', but must be one of {', '.join(PRECISIONS)}")
    # cuBLAS reads this once, when its first handle is made.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    threads = torch.get_num_threads()
    matmul = torch.get_float32_matmul_precision()
    strict = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    cudnn = torch.backends.cudnn.benchmark
    fill = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    keep_freed_memory()
    try:
        torch.set_num_threads(section.threads or threads)
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        torch.use_deterministic_algorithms(section.deterministic, warn_only=True)
        torch.backends.cudnn.benchmark = not section.deterministic
        # Filling every new tensor finds bugs, not results, and costs a launch each.
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(matmul)
        torch.use_deterministic_algorithms(strict, warn_only=warn_only)
        torch.backends.cudnn.benchmark = cudnn
        torch.utils.deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]
