"""Time and memory of training steps with XD-operations, against the networks that they replace (XD paper, Table 4)."""

import gc
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.runner import Entry, interleaved
from eclose.backbones import make_backbone
from eclose.backbones.layers import batch_norm, conv
from eclose.backbones.wideresnet import PreActivationBlock
from eclose.config import RunSection
from eclose.signature import Signature
from eclose.spaces.architecture import named_architecture
from eclose.spaces.relaxing.relax import relax
from eclose.train import GradientStep, Objective, World
from eclose.train.device import torch_settings
from eclose.train.graph import GraphStep
from eclose.train.losses import make_loss
from eclose.train.optimisers import make_optimiser

FIXED = {"bias": False, "gates": False}  # b and C, as in the paper's table


@dataclass(frozen=True)
class Setting:
    """Networks to compare; the ratio is that of ``xd`` to ``against``."""

    title: str
    shape: tuple[int, ...]  # of a batch
    networks: dict[str, Callable[[], nn.Module]]
    against: str
    goals: tuple[float, float | None]  # time, memory
    relaxed: dict[str, Any] = field(default_factory=lambda: FIXED)
    start: str = "conv"  # what is relaxed


def settings(device: str) -> dict[str, Setting]:
    """Whole networks on a GPU; one block of the two large ones on a CPU."""
    burgers = Signature("dense", channels=1, sizes=(256,), outputs=1)
    darcy = Signature("dense", channels=1, sizes=(85, 85), outputs=1)
    found = {
        "darcy": Setting(
            "Darcy net, 85 x 85, 13 x 13 taps, batch 20",
            (20, 1, 85, 85),
            {"conv": lambda: make_backbone("cnn", darcy, {})},
            "conv",
            (1.1, 1.5) if device == "cuda" else (2.0, 3.0),
        ),
        "burgers": Setting(
            "Burgers net, 256 points, 17 taps, batch 20, b and C learned",
            (20, 1, 256),
            {"cnn": lambda: make_backbone("cnn", burgers, {}), "fno": lambda: make_backbone("fno", burgers, {})},
            "fno",
            (1.5, None) if device == "cuda" else (2.0, None),
            {"fewest": True},
            start="cnn",
        ),
    }
    if device == "cuda":
        images = Signature("classification", channels=3, sizes=(32, 32), outputs=10)
        return {
            "wrn": Setting(
                "WRN-40-4, 32 x 32, batch 128",
                (128, 3, 32, 32),
                {"conv": lambda: make_backbone("wrn40-4", images, {})},
                "conv",
                (2.0, 1.5),
            ),
            **found,
            "psicov": Setting(
                "ResNet-18 of 16 channels, 128 x 128, batch 2",
                (2, 57, 128, 128),
                {"conv": lambda: protein_network(8)},
                "conv",
                (2.0, 1.5),
            ),
        }
    return {
        "wrn": Setting(
            "one block of WRN-40-4, 64 channels, 32 x 32, batch 128",
            (128, 64, 32, 32),
            {"conv": lambda: block(64)},
            "conv",
            (5.0, 2.0),
        ),
        **found,
        "psicov": Setting(
            "one block of ResNet-18, 16 channels, 128 x 128, batch 2",
            (2, 16, 128, 128),
            {"conv": lambda: block(16)},
            "conv",
            (15.0, 3.0),
        ),
    }


def block(channels: int) -> nn.Module:
    """Two convolutions of three taps with their normalisations."""
    return PreActivationBlock(2, channels, channels, kernel=(3, 3), stride=(1, 1))


def protein_network(blocks: int) -> nn.Module:
    """A ResNet for distances between residues: 57 features in, one map out, 16 channels throughout."""
    layers = [conv(2)(57, 16, 1), *(block(16) for _ in range(blocks)), batch_norm(2)(16), nn.ReLU()]
    return nn.Sequential(*layers, conv(2)(16, 1, 3, padding=1))


class Variant:
    """A network with its optimisers; a call is one step."""

    def __init__(self, setting: Setting, name: str, device: torch.device, *, graph: bool = False) -> None:
        torch.manual_seed(0)
        self.x = torch.randn(setting.shape, device=device)
        self.model = setting.networks[setting.start if name == "xd" else name]()
        if name == "xd":
            self.model = relax(self.model, self.x[:1].cpu(), **setting.relaxed)
        self.model.to(device)
        with torch.no_grad():
            self.y = torch.randn_like(self.model(self.x))
        own = list(named_architecture(self.model).values())
        others = [parameter for parameter in self.model.parameters() if not any(parameter is one for one in own)]
        groups = [{"params": part, "lr": 1e-4, "weight_decay": 0.0} for part in (others, own) if part]
        optimisers = [make_optimiser("adam", [group], {}) for group in groups]
        objective = Objective(make_loss("mse", {}), None)
        step = GradientStep(self.model, objective, optimisers, 0.0, "tf32", device, World())
        self.step = GraphStep(step) if graph else step

    def __call__(self) -> None:
        self.step(self.x, self.y, len(self.x))


def check(device: torch.device) -> str:
    """Relaxed networks compute what their starts compute, and their steps have finite results."""
    worst = 0.0
    for setting in settings(device.type).values():
        variants = [Variant(setting, name, device) for name in (setting.start, "xd")]
        with torch.no_grad():
            expected, found = (variant.model.eval()(variant.x[:2]) for variant in variants)
        worst = max(worst, float((found - expected).abs().max() / expected.abs().max()))
        variants[1]()
        assert all(bool(parameter.isfinite().all()) for parameter in variants[1].model.parameters())
    assert worst < 1e-3, f"relaxed networks differ from their starts by {worst:.1e}"
    return f"relaxed networks agree with their starts to {worst:.0e} of the largest output"


def measure(device: torch.device) -> list[str]:
    """Rounds of a few steps each, variants in turn; memory of each variant by itself."""
    graphs = (False, True) if device.type == "cuda" else (False,)
    lines = [
        "Forward, backward and both optimiser steps (Adam); median of rounds, variants in turn"
        + (", TF32" if device.type == "cuda" else ", float32")
        + ". Memory: most held during training, "
        + ("allocated on the GPU" if device.type == "cuda" else "resident beyond what the idle process holds")
        + ", weights and optimiser included.",
    ]
    for key, setting in settings(device.type).items():
        names = [*setting.networks, "xd"]
        seconds: dict[bool, dict[str, float]] = {graph: _times(setting, names, device, graph) for graph in graphs}
        memory = {name: _memory(key, name, device) for name in names}
        lines += _table(setting, names, seconds, memory)
    return lines


def _times(setting: Setting, names: list[str], device: torch.device, graph: bool) -> dict[str, float]:
    steps, rounds = (10, 7) if device.type == "cuda" else (1, 7)
    with torch_settings(RunSection(deterministic=False), "tf32"):
        variants = {name: _repeated(Variant(setting, name, device, graph=graph), steps) for name in names}
        found = interleaved(variants, device, rounds)
    return {name: value / steps for name, value in found.items()}


def _repeated(variant: Variant, steps: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(steps):
            variant()

    return run


def _memory(key: str, name: str, device: torch.device) -> float:
    """MiB."""
    if device.type == "cuda":
        return _peak(key, name, device.type)
    context = multiprocessing.get_context("spawn")  # a process of its own: memory once taken is rarely given back
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_peak, key, name, device.type).result()


def _peak(key: str, name: str, kind: str) -> float:
    device = torch.device(kind)
    setting = settings(kind)[key]
    gc.collect()
    if kind == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = float(torch.cuda.memory_allocated())
    else:
        nn.Conv1d(1, 1, 3)(torch.zeros(1, 1, 8)).sum().backward()  # libraries load
        before = _resident("VmRSS")
    with torch_settings(RunSection(deterministic=False), "tf32"):
        variant = Variant(setting, name, device)
        for _ in range(3):
            variant()
    after = float(torch.cuda.max_memory_allocated()) if kind == "cuda" else _resident("VmHWM")
    return (after - before) / 2**20


def _resident(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024.0 * float(line.split()[1]) for line in lines if line.startswith(field))


def _table(
    setting: Setting, names: list[str], seconds: dict[bool, dict[str, float]], memory: dict[str, float]
) -> list[str]:
    ways = {False: "ms a step", True: "ms as a CUDA graph"}
    head = ["network", *(ways[graph] for graph in seconds), "MiB"]
    lines = ["", f"## {setting.title}", "", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for name in names:
        times = [f"{1000 * found[name]:.2f}" for found in seconds.values()]
        lines.append(f"| {' | '.join([name, *times, f'{memory[name]:.0f}'])} |")
    ratios = [f"{found['xd'] / found[setting.against]:.2f}" for found in seconds.values()]
    space = memory["xd"] / memory[setting.against]
    goal = f"time {setting.goals[0]}" + (f", memory {setting.goals[1]}" if setting.goals[1] else "")
    return [*lines, "", f"xd / {setting.against}: time {' and '.join(ratios)}, memory {space:.2f}. Goal: {goal}."]


ENTRY = Entry("xd-cost", "What XD-operations cost", check, measure)
