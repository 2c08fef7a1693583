"""The device a run uses, and the switches of torch that decide whether its numbers repeat."""

import contextlib
import os
import time
from collections import deque
from collections.abc import Iterator

import torch

from eclose.config import RunSection
from eclose.errors import ConfigError
from eclose.ops.precision import switched

PRECISIONS = {
    "float32": None,
    "tf32": None,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}

_BESIDE_A_GPU = 4  # threads
_AHEAD = 4  # steps that a GPU has not done yet


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


def seconds_now(device: torch.device) -> float:
    """The clock once the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


class Pace:
    """Lets a training be few steps ahead of its GPU, so that the clock says how far it really is.

    To hand over a replayed step takes the CPU a millisecond at most, and the GPU does it a third of a second later,
    say. Where nothing waits, the time has not gone by yet when all of its steps are under way, at the same rate.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._ends: deque[torch.cuda.Event] = deque()  # of the steps under way

    def handed_over(self) -> None:
        """The GPU has been given another step."""
        if self.device.type != "cuda":
            return
        end = torch.cuda.Event(blocking=True)
        end.record(torch.cuda.current_stream(self.device))
        self._ends.append(end)
        if len(self._ends) > _AHEAD:
            self._ends.popleft().synchronize()


def keep_freed_memory() -> None:
    """Has the process keep some 60 MB that it freed: a training step on a CPU would take them anew, page by page.

    glibc learns from the largest block below 32 MB that was ever freed how much to keep.
    """
    torch.empty(31 * 2**20, dtype=torch.uint8)


def usual_precision(device: torch.device) -> str:
    """What ``train.precision=auto`` is: of products on a GPU ten binary digits are kept, of sums all."""
    return "tf32" if device.type == "cuda" else "float32"


def repeats(section: RunSection) -> bool:
    """Whether a run gives the same bits again: on a CPU always, on a GPU where that is asked for, as it costs time."""
    return section.deterministic or choose_device(section.device).type == "cpu"


@contextlib.contextmanager
def usual_torch() -> Iterator[None]:
    """Around what users call: gradients, single precision, tensors on the CPU, whatever they have made usual in torch.

    What is not as it should be is changed, and restored: torch asks about a usual device in each of its functions.
    """
    with contextlib.ExitStack() as stack:
        if torch.is_inference_mode_enabled():
            stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        switched(stack, torch.get_default_dtype, torch.set_default_dtype, torch.float32)
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        yield


@contextlib.contextmanager
def few_threads(section: RunSection) -> Iterator[None]:
    """Around a run on a GPU, from its data on: what is left to the CPU is small, and many threads delay one another."""
    with contextlib.ExitStack() as stack:
        if choose_device(section.device).type == "cuda":
            few = min(_BESIDE_A_GPU, torch.get_num_threads())
            switched(stack, torch.get_num_threads, torch.set_num_threads, few)
        yield


@contextlib.contextmanager
def torch_settings(section: RunSection, precision: str) -> Iterator[None]:
    """Threads, determinism and float32 precision as the run asks; what was set before is restored."""
    if precision not in PRECISIONS:
        raise ConfigError(f"train.precision is '{precision}', but must be one of {', '.join(PRECISIONS)}")
    # cuBLAS reads this once, when its first handle is made.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    strict, full = repeats(section), precision == "float32"
    cudnn, memory = torch.backends.cudnn, torch.utils.deterministic
    keep_freed_memory()
    with contextlib.ExitStack() as stack:
        threads = torch.get_num_threads()
        switched(stack, torch.get_num_threads, torch.set_num_threads, section.threads or threads)
        matmul = "high" if precision == "tf32" else "highest"
        switched(stack, torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, matmul)
        switched(stack, lambda: cudnn.allow_tf32, lambda value: setattr(cudnn, "allow_tf32", value), not full)
        switched(stack, lambda: cudnn.benchmark, lambda value: setattr(cudnn, "benchmark", value), not strict)
        switched(stack, _determinism, _set_determinism, (strict, True))
        # Filling every new tensor finds bugs, not results, and costs a launch each.
        fill = "fill_uninitialized_memory"
        switched(stack, lambda: getattr(memory, fill), lambda value: setattr(memory, fill, value), False)
        yield


def _determinism() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _set_determinism(value: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(value[0], warn_only=value[1])


@contextlib.contextmanager
def passing_shapes() -> Iterator[None]:
    """Around what runs on shapes that come seldom: cuDNN does not try out its algorithms for them."""
    before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, False
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before
