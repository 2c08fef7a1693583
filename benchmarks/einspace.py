"""einspace: how many networks a second are drawn, mutated and built; seeds against plain networks."""

import random
import time
from collections.abc import Callable
from statistics import median, quantiles

import torch
from torch import nn

from benchmarks.runner import Entry, by_round
from eclose.signature import Signature
from eclose.spaces.einspace import NoChild, Settings, Tree, build, crossover, digest, mutate, sample
from eclose.spaces.einspace.seeds import PAPER
from tests.spaces.einspace.plain import plain

SIGNATURES = (
    Signature("classification", 3, (32, 32), 10),
    Signature("classification", 1, (27, 18), 6),
    Signature("dense", 1, (21, 21), 1),
    Signature("regression", 4, (100,), 2),
    Signature("segmentation", 2, (8, 6, 8), 3),
    Signature("classification", 1, (24,), 5, vocabulary=30),
    Signature("classification", 7, (1,), 3),
    Signature("dense", 1, (17, 13), 2),
)
CHECKED = 10_000
ROUNDS = 15
TRAINABLE = Settings(0.32, nodes=500, parameters=2e6, flops=2e8, activations=5e5)
IMAGES = Signature("classification", 3, (64, 64), 10)


def check(device: torch.device) -> str:
    """Samples, their mutations and crossovers all build and run forwards and back."""
    rng = random.Random(0)
    ran, crossed, last = 0, 0, {}
    while ran < CHECKED:
        signature = SIGNATURES[ran % len(SIGNATURES)]
        tree = sample(signature, rng, TRAINABLE)
        trees = [tree, mutate(tree, signature, rng, TRAINABLE)]
        assert digest(trees[0]) != digest(trees[1])
        try:
            trees.append(crossover(tree, last.get(signature, tree), signature, rng, TRAINABLE))
            crossed += 1
        except NoChild:
            pass
        for each in trees:
            _run(build(each, signature).to(device), signature, device)
        last[signature] = tree
        ran += 1
    return f"{ran} samples, {ran} mutations and {crossed} crossovers built and ran forwards and back"


def _run(network: nn.Module, signature: Signature, device: torch.device) -> None:
    shape = signature.input_shape(2)
    x = torch.zeros(shape, dtype=torch.long) if signature.tokens else torch.randn(shape)
    y = network(x.to(device))
    assert y.shape == signature.output_shape(2)
    y.square().mean().backward()


def measure(device: torch.device) -> list[str]:
    """Rates as Markdown."""
    torch.set_num_threads(1)
    lines = ["| drawing, 3 x 32 x 32 | networks a CPU-second | microseconds a random choice |", "|---|---|---|"]
    unlimited = Settings.paper()
    for name, settings in {
        "p = 0.40": Settings(0.40),
        "p = 0.37 (default)": Settings(),
        "p = 0.32, 1000 nodes": Settings(0.32),
        "p = 0.32, no limits (paper)": unlimited,
    }.items():
        rate, choice = _drawing(settings)
        lines.append(f"| {name} | {rate:.0f} | {choice * 1e6:.1f} |")
    clock = "ms" if device.type == "cuda" else "CPU-ms"
    lines += [
        "",
        f"| seed, 3 x 64 x 64 | mutation, CPU-ms | build, CPU-ms | step of 8, {clock} | plain network | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for name, seed in PAPER.items():
        lines.append(f"| {name} | " + " | ".join(_seed(name, seed(IMAGES), device)) + " |")
    return [
        *lines,
        "",
        f"Steps (forwards and back) by turns, {ROUNDS} rounds: medians; of the rounds' ratios also the quartiles.",
        "CPU-ms: time of the processor, one thread. On a machine with other work, threads wait for each other, and",
        "wall clock times of one and the same network differ several times over.",
    ]


class Counting(random.Random):
    """Counts its draws."""

    drawn = 0

    def random(self) -> float:
        self.drawn += 1
        return super().random()


def _drawing(settings: Settings, seconds: float = 5.0) -> tuple[float, float]:
    rng, networks, begun = Counting(0), 0, time.process_time()
    while time.process_time() - begun < seconds:
        sample(SIGNATURES[0], rng, settings)
        networks += 1
    taken = time.process_time() - begun
    return networks / taken, taken / rng.drawn


def _seed(name: str, tree: Tree, device: torch.device) -> list[str]:
    rng = random.Random(0)
    mutation = _cpu_seconds(lambda: mutate(tree, IMAGES, rng), 100)
    building = _cpu_seconds(lambda: build(tree, IMAGES), 3)
    x = torch.randn(IMAGES.input_shape(8), device=device)

    def step(network: nn.Module) -> Callable[[], None]:
        network.to(device)
        return lambda: network(x).square().mean().backward()

    steps = {"ours": step(build(tree, IMAGES)), "plain": step(plain(name, 3, 256, 10))}
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    times = by_round(steps, device, ROUNDS, clock=clock)
    low, middle, high = quantiles([a / b for a, b in zip(times["ours"], times["plain"], strict=True)], n=4)
    seconds = (mutation, building, median(times["ours"]), median(times["plain"]))
    return [*(f"{1e3 * value:.1f}" for value in seconds), f"{middle:.2f} ({low:.2f} to {high:.2f})"]


def _cpu_seconds(action: Callable[[], object], rounds: int) -> float:
    begun = time.process_time()
    for _ in range(rounds):
        action()
    return (time.process_time() - begun) / rounds


ENTRY = Entry("einspace", "einspace: drawing, mutating and building networks", check, measure)
