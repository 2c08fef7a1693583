"""What it brings to make matrices, and weights with gates, of all XD-operations at once for a training step."""

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
from eclose.ops.xd.evaluation.batching import Together
from eclose.signature import Signature
from eclose.train.device import torch_settings
from eclose.train.graph import GraphStep
from eclose.train.verbs import Verbs

KINDS: dict[str, tuple[type[nn.Module], ...]] = {
    "each by itself": (),
    "matrices at once": (Architecture,),
    "weights and gates at once": (XD,),
    "both at once": (Architecture, XD),
}
"""For whom things are made at once: architectures have the matrices, operations have the weights with their gates."""

NEITHER, MATRICES, WEIGHTS, BOTH = KINDS
PARTS = {"K, L and M": {"bias": False, "gates": False}, "K, L, M, b and C": {"bias": True, "gates": True}}
"""What is learned of every network: without C there are no gates to multiply weights by."""


class Switched(Together):
    """Makes at once what members of some kinds asked for in the pass before; others make theirs when they ask."""

    def __init__(self, operations: list[XD], kinds: tuple[type[nn.Module], ...]) -> None:
        super().__init__(member for operation in operations for member in (operation, operation.architecture))
        self.kinds = kinds
        self.served: set[type] = set()

    def begin(self) -> None:
        self._before = {key: None for key in self._before if isinstance(self.members.get(key[0]), self.kinds)}
        super().begin()
        self.served |= {type(self.members[member]) for member, _ in self._ready}


class SwitchedVariant(Variant):
    """A relaxed network with its optimisers; a call is one step."""

    def __init__(self, setting: Setting, kinds: tuple[type[nn.Module], ...], device: torch.device, graph: bool) -> None:
        super().__init__(setting, "xd", device)
        operations = [module for module in self.model.modules() if isinstance(module, XD)]
        self.switched = Switched(operations, kinds)
        for operation in operations:
            operation.architecture.together = self.switched
        self.step.verbs = Verbs(self.model)
        if not kinds:
            self.step.verbs.passes = []
        if graph:
            self.step = GraphStep(self.step)


def networks(device: str) -> dict[str, Setting]:
    """Those of ``xd-cost`` on a GPU; on a CPU the same ones, whole, on small inputs and batches."""
    if device == "cuda":
        return settings(device)
    images = Signature("classification", channels=3, sizes=(16, 16), outputs=10)
    darcy = Signature("dense", channels=1, sizes=(29, 29), outputs=1)
    burgers = settings(device)["burgers"]
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
    """Steps have the same losses, whatever is made at once, and the switches do what they say."""
    worst = 0.0
    with torch_settings(RunSection(deterministic=False), "tf32"):
        for setting in networks(device.type).values():
            learned = replace(setting, relaxed={**setting.relaxed, "bias": True, "gates": True})
            variants = [SwitchedVariant(learned, kinds, device, False) for kinds in KINDS.values()]
            losses = [_losses(variant) for variant in variants]
            assert [variant.switched.served for variant in variants] == [set(kinds) for kinds in KINDS.values()]
            worst = max(worst, float((losses[0] - torch.stack(losses)).abs().max() / losses[0].abs().max()))
    assert worst < 1e-2, f"losses of three steps differ by {worst:.1e}"
    return f"losses of three steps agree to {worst:.0e}, whatever is made at once"


def _losses(variant: Variant) -> torch.Tensor:
    return torch.stack([variant.step(variant.x, variant.y, len(variant.x)) for _ in range(3)])


def measure(device: torch.device) -> list[str]:
    """Rounds of a few steps each, variants in turn; ratios are taken within a round."""
    ways = {"eager": False, "CUDA graph": True} if device.type == "cuda" else {"eager": False}
    lines = [
        "Forward, backward and both optimiser steps (Adam); median of rounds, variants in turn. Ratios are taken "
        f"within a round, to the step in which every operation makes its own ({NEITHER}).",
    ]
    for setting in networks(device.type).values():
        for part, relaxed in PARTS.items():
            for way, graph in ways.items():
                seconds = _seconds(replace(setting, relaxed={**setting.relaxed, **relaxed}), device, graph)
                title = setting.title.removesuffix(", b and C learned")
                lines += _table(f"{title}; {part} learned; {way}", seconds)
    return lines


def _seconds(setting: Setting, device: torch.device, graph: bool) -> dict[str, list[float]]:
    steps, rounds = (5, 7) if device.type == "cuda" else (1, 7)
    with torch_settings(RunSection(deterministic=False), "tf32"):
        variants = {
            name: _repeated(SwitchedVariant(setting, kinds, device, graph), steps) for name, kinds in KINDS.items()
        }
        times = by_round(variants, device, rounds)
    return {name: [value / steps for value in values] for name, values in times.items()}


def _repeated(variant: Variant, steps: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(steps):
            variant()

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
