"""A look at the installation: versions, devices, folders, extras, and whether a training step works."""

import contextlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from rich.table import Table
from torch import nn

import eclose
from eclose.ops.precision import switched
from eclose.plural import plural
from eclose.runs import cache_folder
from eclose.tasks import data_folder
from eclose.waiting import waiting

_CORE = ("torch", "numpy", "safetensors", "typer", "matplotlib", "jinja2")
_TRIES = 4  # of a convolution, of which the quickest counts
_WORTH = 0.8  # of the time: less is worth another precision
_EXTRAS = {"tensorboard": "tensorboard", "ray": "ray", "dashboard": "optuna", "onnx": "onnxscript"}


def examine() -> tuple[dict[str, Any], Table]:
    """Facts and problems, as data and as a table."""
    problems: list[str] = []
    facts: dict[str, str] = {"eclose": eclose.__version__, "python": platform.python_version()}
    for package in _CORE:
        facts[package] = _version(package, problems)
    facts["processor"] = f"{plural(_cores(), 'core')}, torch uses {plural(torch.get_num_threads(), 'thread')}"
    facts["load"] = _load()
    facts["waiting threads"] = waiting()
    facts["bfloat16"] = _half()
    facts["gpu"] = _gpu()
    facts["cache folder"] = _folder(cache_folder(), problems)
    facts["data folder"] = f"{data_folder()} ({'exists' if data_folder().is_dir() else 'not there'})"
    facts["disk"] = f"{shutil.disk_usage(Path.cwd()).free / 2**30:.1f} GiB free here"
    for extra, module in _EXTRAS.items():
        there = importlib.util.find_spec(module) is not None
        facts[f"extra {extra}"] = "installed" if there else f"not installed: pip install 'eclose[{extra}]'"
    facts["training step"] = _step(problems)
    table = Table("what", "here", show_header=False)
    for name, value in facts.items():
        table.add_row(name, value)
    for problem in problems:
        table.add_row("PROBLEM", problem, style="bold")
    table.add_row("verdict", "all well" if not problems else f"{len(problems)} problem(s)", style="bold")
    return {**facts, "problems": problems}, table


def _cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _load() -> str:
    """How many processes wanted a core in the last minute, and what that means."""
    if not hasattr(os, "getloadavg"):
        return "not told by this system"
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    told, free = f"{load:.1f} processes want {cores} cores", max(1, round(cores - load))
    busy = load >= 0.5 and free < torch.get_num_threads()
    return f"{told}: --set run.threads={free} may be faster here" if busy else told


def _version(package: str, problems: list[str]) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        problems.append(f"{package} is not installed: pip install {package}")
        return "missing"


def _gpu() -> str:
    if not torch.cuda.is_available():
        return "none that torch can use"
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return ", ".join(names)


def _folder(path: Path, problems: list[str]) -> str:
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path):
            pass
    except OSError as error:
        problems.append(f"cannot write to {path} ({error.strerror}): set $ECLOSE_CACHE to another folder")
        return f"{path} (not writable)"
    return f"{path} (writable)"


def _half() -> str:
    """Whether this processor multiplies in bfloat16 itself: then convolutions take about half of the time."""
    seconds: dict[bool, list[float]] = {False: [], True: []}
    network, x = nn.Conv1d(64, 64, 9), torch.ones(16, 64, 256)
    with contextlib.ExitStack() as stack:
        switched(stack, torch.get_num_threads, torch.set_num_threads, 1)  # on a busy machine several wait for others
        for _ in range(_TRIES):
            for half, taken in seconds.items():
                begun = time.perf_counter()
                with torch.autocast("cpu", torch.bfloat16, enabled=half):
                    output = network(x)
                output.float().sum().backward()
                taken.append(time.perf_counter() - begun)
    share = min(seconds[True]) / min(seconds[False])
    told = f"a convolution takes {share:.2f} of its time in float32"
    quick = f"{told}: --set train.precision=bfloat16 is faster for most networks"
    return quick if share < _WORTH else told


def _step(problems: list[str]) -> str:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    begun = time.perf_counter()
    network = nn.Conv2d(3, 8, 3).to(device)
    loss = network(torch.ones(2, 3, 8, 8, device=device)).square().mean()
    loss.backward()
    weight = network.weight.grad
    if weight is None or not bool(torch.isfinite(weight).all()):
        problems.append(f"a convolution's gradient on {device} is not finite: reinstall torch")
        return "failed"
    return f"works on {device.type} ({(time.perf_counter() - begun) * 1000:.0f} ms)"
