"""Measuring and writing: interleaved rounds, machine facts, a dated Markdown file."""

import contextlib
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import torch

import eclose
from eclose.config import RunSection
from eclose.train.device import torch_settings

RESULTS = Path(__file__).with_name("results")


@dataclass(frozen=True)
class Entry:
    """One benchmark: first ``check``, which raises if the fast thing is not the right thing, then ``measure``."""

    name: str
    title: str
    check: Callable[[torch.device], str]
    measure: Callable[
        [torch.device], list[str] | tuple[list[str], dict[str, Any]]
    ]  # lines of Markdown, perhaps figures


def interleaved(
    variants: dict[str, Callable[[], None]], device: torch.device, rounds: int, warm_up: int = 2
) -> dict[str, float]:
    """Median seconds of each variant."""
    times = by_round(variants, device, rounds, warm_up)
    return {name: statistics.median(values) for name, values in times.items()}


def by_round(
    variants: dict[str, Callable[[], None]],
    device: torch.device,
    rounds: int,
    warm_up: int = 2,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of each variant in every round. All take turns, in changing order, so that drift hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(warm_up + rounds):
        for name in list(variants)[:: 1 if turn % 2 else -1]:
            _wait(device)
            begun = clock()
            variants[name]()
            _wait(device)
            if turn >= warm_up:
                times[name].append(clock() - begun)
    return times


@contextlib.contextmanager
def as_in_a_run(device: torch.device, precision: str = "tf32") -> Iterator[None]:
    """What a run sets in torch."""
    with torch_settings(RunSection(device=device.type), precision if device.type == "cuda" else "float32"):
        yield


def replayed(run: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """The same as a CUDA graph."""
    stream, graph = torch.cuda.Stream(device), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream(device).wait_stream(stream)
    generator = torch.cuda.default_generators[stream.device.index]
    before = generator.clone_state()
    try:
        with torch.cuda.graph(graph, stream=stream):
            run()
    except RuntimeError:
        generator.graphsafe_set_state(before)  # else torch may take the capture for not yet over and draw no more
        raise

    def again(kept: Callable[[], None] = run) -> None:  # all that ``run`` reads must live as long as the graph
        graph.replay()

    return again


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def run(entry: Entry, device: torch.device, folder: Path) -> Path:
    """Check, measure, write ``DATE-NAME-DEVICE.md``, and figures as ``.json`` beside it."""
    verdict = entry.check(device)
    print(f"{entry.name}: correct ({verdict}); measuring", file=sys.stderr)
    measured = entry.measure(device)
    lines, figures = measured if isinstance(measured, tuple) else (measured, None)
    text = "\n".join([f"# {entry.title}", "", *machine(device), f"- correctness: {verdict}", "", *lines, ""])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{date.today().isoformat()}-{entry.name}-{device.type}.md"
    path.write_text(text)
    if figures is not None:
        path.with_suffix(".json").write_text(json.dumps(figures, indent=1) + "\n")
    print(text)
    return path


def machine(device: torch.device) -> list[str]:
    """Hardware, versions and the command, as list items."""
    hardware = f"{os.cpu_count()} CPU cores ({_processor()}), {torch.get_num_threads()} threads"
    if device.type == "cuda":
        hardware = f"{torch.cuda.get_device_name(device)}, CUDA {torch.version.cuda}; {hardware}"
    arguments = " ".join(sys.argv[1:]).partition(" --out")[0]
    return [
        f"- date: {date.today().isoformat()}",
        f"- command: `python -m benchmarks {arguments}`",
        f"- hardware: {hardware}",
        f"- versions: eclose {eclose.__version__}, torch {torch.__version__}, Python {platform.python_version()}",
    ]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
