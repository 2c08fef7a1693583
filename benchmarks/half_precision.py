"""Activations in bfloat16: training steps of networks of several kinds beside those in the usual precision."""

import statistics
from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.runner import Entry, as_in_a_run, by_round
from eclose.config import Config
from eclose.signature import Signature
from eclose.spaces import make_space
from eclose.train.device import usual_precision
from eclose.train.step import autocast

ROUNDS = 7
HALF = "bfloat16"
SIGNALS, IMAGES, FIELDS = (
    Signature("classification", 1, (140,), 5),
    Signature("classification", 3, (16, 16), 10),
    Signature("dense", 1, (32, 32), 1),
)
CASES = {  # the space, the network it starts from, what it is shown
    "resnet, 140": ("backbone", "resnet", SIGNALS),
    "inception, 140": ("backbone", "inception", SIGNALS),
    "tcn, 140": ("backbone", "tcn", SIGNALS),
    "resnet, 16 x 16": ("backbone", "resnet", IMAGES),
    "inception, 16 x 16": ("backbone", "inception", IMAGES),
    "unet, 32 x 32": ("backbone", "unet", FIELDS),
    "fno, 32 x 32": ("backbone", "fno", FIELDS),
    "ccnn, 140": ("backbone", "ccnn", SIGNALS),
    "resnet with XD-operations, 140": ("xd", "resnet", SIGNALS),
    "cells, 16 x 16": ("nos", "", IMAGES),
}
BATCH = 16


def network(space: str, backbone: str, signature: Signature, device: torch.device) -> nn.Module:
    """A plain network, or the one that a search begins with."""
    torch.manual_seed(0)
    cells = {"space.cells": 5, "space.width": 16} if space == "nos" else {}
    made = make_space(Config().with_values({"space.name": space, "backbone.name": backbone, **cells}))
    return made.build(made.start(signature), signature).to(device)


def step(model: nn.Module, x: Tensor, precision: str) -> Callable[[], None]:
    """Forward, backward and AdamW."""
    optimiser = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)

    def run() -> None:
        with autocast(precision, x.device):
            output = model(x)
        output.float().square().mean().backward()
        optimiser.step()
        optimiser.zero_grad()

    return run


def _output(model: nn.Module, x: Tensor, precision: str) -> Tensor:
    with torch.no_grad(), autocast(precision, x.device):
        result: Tensor = model(x)
    return result.float()


def check(device: torch.device) -> str:
    """Outputs agree as closely as bfloat16 can tell."""
    worst = 0.0
    for space, backbone, signature in CASES.values():
        model = network(space, backbone, signature, device).eval()
        x = torch.randn(signature.input_shape(BATCH), generator=torch.Generator().manual_seed(0)).to(device)
        full, half = (_output(model, x, precision) for precision in ("float32", HALF))
        difference = float((half - full).norm() / full.norm())
        assert difference < 0.1, f"{space} {backbone}: outputs differ by {difference:.2g}"
        worst = max(worst, difference)
    return f"outputs of new networks in float32 and in bfloat16 differ by at most {worst:.1e}"


def measure(device: torch.device) -> list[str]:
    """One line a network."""
    usual = usual_precision(device)
    lines = [
        f"Milliseconds of a step, eager, batch {BATCH}, median of {ROUNDS} rounds in turn, ratios within a round.",
        "",
        f"| network | {usual} | bfloat16 | ratio |",
        "|---|---|---|---|",
    ]
    with as_in_a_run(device, usual):
        return [*lines, *(_line(case, usual, device) for case in CASES)]


def _line(case: str, usual: str, device: torch.device) -> str:
    space, backbone, signature = CASES[case]
    x = torch.randn(signature.input_shape(BATCH), device=device)
    steps = {name: step(network(space, backbone, signature, device).train(), x, name) for name in (usual, HALF)}
    times = by_round(steps, device, ROUNDS)
    ratio = statistics.median(b / a for a, b in zip(times[usual], times[HALF], strict=True))
    full, half = (1e3 * statistics.median(times[name]) for name in (usual, HALF))
    return f"| {case} | {full:.1f} | {half:.1f} | {ratio:.2f} |"


ENTRY = Entry("half-precision", "Activations in bfloat16", check, measure)
