"""einspace: how many networks a second are drawn, mutated and built; seeds against plain networks."""

import random
import time
from collections.abc import Callable

import torch
from torch import nn

from benchmarks.runner import Entry, interleaved
from eclose.signature import Signature
from eclose.spaces.einspace import SEEDS, NoChild, Settings, Tree, build, crossover, digest, mutate, sample
from tests.spaces.einspace.plain import plain

SIGNATURES = (
    Signature("classification", 3, (32, 32), 10),
    Signature("classification", 1, (27, 18), 6),
    Signature("dense", 1, (21, 21), 1),
    Signature("regression", 4, (100,), 2),
    Signature("segmentation", 2, (8, 6, 8), 3),
    Signature("classification", 1, (24,), 5, vocabulary=30),
)
CHECKED = 10_000
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
    lines += ["", "| seed, 3 x 64 x 64 | mutation, CPU-ms | build, CPU-ms | step, ms (batch 8) | plain network |"]
    lines += ["|---|---|---|---|---|"]
    for name, seed in SEEDS.items():
        lines.append(f"| {name} | " + " | ".join(_seed(name, seed(IMAGES), device)) + " |")
    return lines


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
    times = interleaved(steps, device, rounds=5)
    return [f"{1e3 * seconds:.1f}" for seconds in (mutation, building, times["ours"], times["plain"])]


def _cpu_seconds(action: Callable[[], object], rounds: int) -> float:
    begun = time.process_time()
    for _ in range(rounds):
        action()
    return (time.process_time() - begun) / rounds


ENTRY = Entry("einspace", "einspace: drawing, mutating and building networks", check, measure)
