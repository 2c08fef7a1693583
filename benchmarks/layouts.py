"""Channels first or last: training steps of networks of two-dimensional convolutions in both layouts."""

import copy
import statistics
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from benchmarks.runner import Entry, as_in_a_run, by_round
from eclose.backbones import make_backbone
from eclose.config import Config
from eclose.ops.precision import all_digits
from eclose.signature import Signature
from eclose.spaces import make_space
from eclose.train.step import autocast

ROUNDS = 7
PRECISIONS = {"cpu": ("float32",), "cuda": ("tf32", "bfloat16")}
IMAGES, DIGITS, FIELDS = (
    Signature("classification", 3, (32, 32), 10),
    Signature("classification", 1, (8, 8), 10),
    Signature("dense", 1, (43, 43), 1),
)
CASES = {
    "inception, 32 x 32": ("inception", IMAGES, 32),
    "inception, 8 x 8": ("inception", DIGITS, 64),
    "resnet, 32 x 32": ("resnet", IMAGES, 32),
    "resnet, 8 x 8": ("resnet", DIGITS, 64),
    "resnet20, 32 x 32": ("resnet20", IMAGES, 32),
    "wrn40-4, 32 x 32": ("wrn40-4", IMAGES, 8),
    "unet, 43 x 43": ("unet", FIELDS, 16),
    "cnn, 43 x 43": ("cnn", FIELDS, 16),
    "cells with depthwise convolutions, 32 x 32": ("", IMAGES, 8),
}


def network(name: str, signature: Signature, device: torch.device) -> nn.Module:
    """A plain network, or one of small cells."""
    torch.manual_seed(0)
    if name:
        return make_backbone(name, signature, {}).to(device)
    space = make_space(Config().with_values({"space.name": "nos", "space.cells": 5, "space.width": 16}))
    return space.build(space.start(signature), signature).to(device)


def last(model: nn.Module) -> nn.Module:
    """The same with its channels last."""
    model = copy.deepcopy(model)
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
            module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def step(model: nn.Module, x: Tensor, precision: str) -> Callable[[], None]:
    """Forward, backward and AdamW."""
    optimiser = torch.optim.AdamW(model.parameters(), 1e-3)

    def run() -> None:
        with autocast(precision, x.device):
            loss = model(x).square().mean()
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()

    return run


def check(device: torch.device) -> str:
    """Both layouts give the same outputs."""
    for name, signature, batch in CASES.values():
        model, x = network(name, signature, device).eval(), torch.randn(signature.input_shape(batch), device=device)
        with all_digits(device.type):  # layouts have algorithms of their own, which may round otherwise in TF32
            torch.testing.assert_close(last(model)(x), model(x), rtol=1e-3, atol=1e-3)
    return "both layouts give the same outputs"


def measure(device: torch.device) -> list[str]:
    """One line a network."""
    lines = [f"Milliseconds of a step, eager, median of {ROUNDS} rounds; both layouts in turn, ratios within a round."]
    for precision in PRECISIONS[device.type]:
        lines += ["", f"## {precision}", "", "| network | batch | channels first | channels last | ratio |"]
        lines.append("|---|---|---|---|---|")
        with as_in_a_run(device, precision):
            lines += [_line(case, precision, device) for case in CASES]
    return lines


def _line(case: str, precision: str, device: torch.device) -> str:
    name, signature, batch = CASES[case]
    model, x = network(name, signature, device).train(), torch.randn(signature.input_shape(batch), device=device)
    make = partial(step, x=x, precision=precision)
    times = by_round({"first": make(model), "last": make(last(model))}, device, ROUNDS)
    ratio = statistics.median(b / a for a, b in zip(times["first"], times["last"], strict=True))
    first, second = (1e3 * statistics.median(times[key]) for key in ("first", "last"))
    return f"| {case} | {batch} | {first:.1f} | {second:.1f} | {ratio:.2f} |"


ENTRY = Entry("layouts", "Channels first or last", check, measure)
