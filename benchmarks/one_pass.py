"""What it brings to make matrices, and weights with gates, of all XD-operations at once for a training step."""

import contextlib
import statistics
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn

from benchmarks.runner import Entry, by_round
from benchmarks.xd_cost import Setting, Variant, protein_network, settings
from eclose.backbones import make_backbone
from eclose.config import RunSection
from eclose.ops.xd import XD, Architecture
from eclose.ops.xd.evaluation.batching import passing
from eclose.ops.xd.operation import makers_alike
from eclose.signature import Signature
from eclose.train.device import torch_settings
from eclose.train.graph import GraphStep

KINDS: dict[str, tuple[type[nn.Module], ...]] = {
    "each by itself": (),
    "matrices at once": (Architecture,),
    "weights and gates at once": (XD,),
    "both at once": (Architecture, XD),
}
"""For whom things are made at once: architectures have the matrices, operations have the weights with their gates."""

NEITHER, MATRICES, WEIGHTS, BOTH = KINDS
ALL = "K, L, M, b and C"
PARTS = {"K, L and M": {"bias": False, "gates": False}, ALL: {"bias": True, "gates": True}}
"""What is learned of every network: without C there are no gates to multiply weights by."""


class Switched(Variant):
    """A relaxed network with its optimisers, of which one kind of makers after the other works at once."""

    def __init__(self, setting: Setting, device: torch.device) -> None:
        super().__init__(setting, "xd", device)
        self.operations = [module for module in self.model.modules() if isinstance(module, XD)]

    def steps(self, kinds: tuple[type[nn.Module], ...], *, graph: bool = False) -> Callable[[], torch.Tensor]:
        """A step, in which makers of these kinds work at once; the others when they are asked."""

        def enter(operations: list[nn.Module]) -> contextlib.AbstractContextManager[None]:
            return passing([group for group in makers_alike(self.operations) if group and isinstance(group[0], kinds)])

        passes = {enter: self.operations} if kinds else {}
        step = GraphStep(self.step) if graph else self.step

        def run() -> torch.Tensor:
            self.step.verbs.passes = passes  # type: ignore[assignment]
            return step(self.x, self.y, len(self.x))

        return run


def networks(device: str) -> dict[str, Setting]:
    """Some of ``xd-cost``; on a CPU on small inputs and batches."""
    burgers = settings(device)["burgers"]
    if device == "cuda":
        return {name: settings(device)[name] for name in ("wrn", "burgers", "psicov")}
    images = Signature("classification", channels=3, sizes=(16, 16), outputs=10)
    darcy = Signature("dense", channels=1, sizes=(29, 29), outputs=1)
    goals = (0.0, None)

    def plain(title: str, shape: tuple[int, ...], network: Callable[[], nn.Module]) -> Setting:
        return Setting(title, shape, {"conv": network}, "conv", goals)

    return {
        "wrn": plain("WRN-40-4, 16 x 16, batch 4", (4, 3, 16, 16), lambda: make_backbone("wrn40-4", images, {})),
        "darcy": plain("Darcy net, 29 x 29, batch 4", (4, 1, 29, 29), lambda: make_backbone("cnn", darcy, {})),
        "burgers": burgers,
        "psicov": plain("ResNet of 16 channels, 32 x 32, batch 2", (2, 57, 32, 32), lambda: protein_network(8)),
    }


def check(device: torch.device) -> str:
    """Steps have the same losses, whatever is made at once."""
    setting = networks(device.type)["psicov"]
    with torch_settings(RunSection(deterministic=False), "tf32"):
        losses = []
        for kinds in KINDS.values():
            step = Switched(_learning(setting, PARTS[ALL]), device).steps(kinds)
            losses.append(torch.stack([step() for _ in range(3)]))
    worst = float((losses[0] - torch.stack(losses)).abs().max() / losses[0].abs().max())
    assert worst < 1e-2, f"losses of three steps differ by {worst:.1e}"
    return f"losses of three steps agree to {worst:.0e}, whatever is made at once"


def measure(device: torch.device) -> list[str]:
    """Rounds of a few steps each, variants in turn; ratios are taken within a round."""
    ways = {"eager": False, "CUDA graph": True} if device.type == "cuda" else {"eager": False}
    lines = [
        "Forward, backward and both optimiser steps (Adam); median of rounds, variants in turn. Ratios are taken "
        f"within a round, to the step in which every operation makes its own ({NEITHER}).",
    ]
    for name, setting in networks(device.type).items():
        brief = name == "wrn" and device.type == "cuda"  # a minute is enough
        for part in (ALL,) if brief else PARTS:
            variant = Switched(_learning(setting, PARTS[part]), device)
            for way, graph in ways.items():
                title = setting.title.removesuffix(", b and C learned")
                lines += _table(f"{title}; {part} learned; {way}", _seconds(variant, device, graph))
    return lines


def _learning(setting: Setting, learned: dict[str, bool]) -> Setting:
    return replace(setting, relaxed={**setting.relaxed, **learned})


def _seconds(variant: Switched, device: torch.device, graph: bool) -> dict[str, list[float]]:
    steps, rounds, warm_up = (3, 5, 2) if device.type == "cuda" else (1, 7, 2)  # a graph is captured in the first one
    with torch_settings(RunSection(deterministic=False), "tf32"):
        variants = {name: _repeated(variant.steps(kinds, graph=graph), steps) for name, kinds in KINDS.items()}
        times = by_round(variants, device, rounds, warm_up)
    return {name: [value / steps for value in values] for name, values in times.items()}


def _repeated(step: Callable[[], torch.Tensor], steps: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(steps):
            step()

    return run


def _table(title: str, seconds: dict[str, list[float]]) -> list[str]:
    lines = ["", f"## {title}", "", "| what is made at once | ms a step | ratio |", "|---|---|---|"]
    for name, values in seconds.items():
        lines.append(f"| {name} | {1000 * statistics.median(values):.2f} | {_ratio(values, seconds[NEITHER]):.3f} |")
    gains = {
        "matrices": (_gain(seconds, NEITHER, MATRICES), _gain(seconds, WEIGHTS, BOTH)),
        "weights and gates": (_gain(seconds, NEITHER, WEIGHTS), _gain(seconds, MATRICES, BOTH)),
    }
    told = [f"{name} {alone:+.1f} % alone, {beside:+.1f} % beside the other" for name, (alone, beside) in gains.items()]
    return [*lines, "", f"Time saved: {'; '.join(told)}."]


def _ratio(values: list[float], reference: list[float]) -> float:
    return statistics.median(one / other for one, other in zip(values, reference, strict=True))


def _gain(seconds: dict[str, list[float]], without: str, with_it: str) -> float:
    return 100 * (1 - _ratio(seconds[with_it], seconds[without]))


ENTRY = Entry("one-pass", "What is made at once for all XD-operations of a network", check, measure)
