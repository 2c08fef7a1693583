"""Masks of a residual network that is no continuous CNN: training steps, whole and at half of its cost.

And how often the sizes under masks change while they are learned: a CUDA graph holds for one set of sizes.
"""

import itertools
import math
import time
from typing import Any

import torch
from torch import nn

from benchmarks.dnarch import Scale, halve, memory, step_of, table
from benchmarks.runner import Entry, by_round
from eclose.backbones import make_backbone
from eclose.config import Config
from eclose.engine import Search, complete
from eclose.engine.supernet import Supernet
from eclose.events import Events
from eclose.signature import Signature
from eclose.spaces.dnarch.budget import Budget
from eclose.spaces.dnarch.coarse_blocks import coarsened
from eclose.spaces.dnarch.complexity import COUNTS
from eclose.spaces.dnarch.own_network import MaskedNetwork, trimmed
from eclose.spaces.dnarch.residual_blocks import planned
from eclose.spaces.trace import example_of
from eclose.tasks import load_task
from eclose.train import Surroundings, Training, World
from eclose.train.memory_layout import lay_out

SCALES = {"cpu": Scale((16, 16), 3, 32, 9, 32), "cuda": Scale((32, 32), 3, 64, 9, 128)}
HALVES = {  # what is learned, and which masks are moved
    "widths": ("WD", ("widths",)),
    "depth": ("WD", ("depth",)),
    "both": ("WD", ("widths", "depth")),
    "resolutions": ("R", ("resolutions",)),
    "all three": ("RWD", ("widths", "resolutions", "depth")),
}
TRIMMED = ("both", "resolutions", "all three")
EPOCHS, SHORT, WARM_UP = 20, 6, 3  # the last of a graph: steps at the same sizes before it is captured
SEARCHES = {
    "ccnn, as computed": ("ccnn", {"backbone.width": 32, "backbone.blocks": 2, "space.step": 1}),
    "ccnn, up to multiples of 8": ("ccnn", {"backbone.width": 32, "backbone.blocks": 2, "space.step": 8}),
    "resnet20, as computed": ("resnet20", {"space.step": 1}),
    "resnet20, up to multiples of 8": ("resnet20", {"space.step": 8}),
    "resnet20, resolutions, too": ("resnet20", {"space.step": 8, "space.learn": "RWD"}),
}


def plain(scale: Scale, device: torch.device) -> nn.Module:
    """ResNet-20 with wider stages."""
    torch.manual_seed(0)
    signature = Signature("classification", scale.channels, scale.sizes, 10)
    return make_backbone("resnet20", signature, {"width": scale.width}).to(device)


def masked(scale: Scale, device: torch.device, learn: str = "WD") -> MaskedNetwork:
    """The same under masks that leave all of it."""
    network = plain(scale, torch.device("cpu"))
    plan = planned(network, example_of(Signature("classification", scale.channels, scale.sizes, 10)))
    temperatures = {"width": 25.0, "depth": 8.0, "resolution": 25.0}
    if "R" in learn:
        plan = coarsened(network, plan, len(scale.sizes), temperatures["resolution"])
    options: dict[str, Any] = {"learn": learn, "temperatures": temperatures, "learn_temperature": False, "step": 8}
    made = MaskedNetwork(network, plan, weighing=COUNTS["operations"], **options)
    made.budget = Budget(made.costs.backbone(), penalty=0.1, tolerance=0.1)
    return made.to(device)


def check(device: torch.device) -> str:
    """What is cut away changes nothing."""
    scale = SCALES["cpu"]
    x = torch.randn(4, scale.channels, *scale.sizes, device=device)
    for half in TRIMMED:
        learn, tables = HALVES[half]
        network = halve(masked(scale, device, learn), tables).eval()
        with torch.no_grad(), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            ours, theirs = trimmed(network)(x), network(x)
        assert torch.allclose(ours, theirs, rtol=1e-3, atol=1e-4), "trimmed and masked networks differ"
    return "the trimmed network equals the masked one"


def measure(device: torch.device) -> tuple[list[str], dict[str, Any]]:
    """Rounds of one step each, variants in turn; then searches, step by step."""
    scale = SCALES[device.type]
    networks: dict[str, nn.Module] = {
        "whole, no masks": plain(scale, device),
        "whole, masks of widths and depth": masked(scale, device),
        "whole, all masks": masked(scale, device, "RWD"),
    }
    costs = {
        label: network.relative() if isinstance(network, MaskedNetwork) else 1.0 for label, network in networks.items()
    }
    for half, (learn, tables) in HALVES.items():
        network = masked(scale, device, learn)
        assert network.budget is not None
        goal = network.budget.goal
        networks[f"half, by {half}"] = halve(network, tables)
        costs[f"half, by {half}"] = network.budget.goal / goal
        if half in TRIMMED:
            networks[f"half, by {half}, cut away"] = trimmed(network).train()
            costs[f"half, by {half}, cut away"] = costs[f"half, by {half}"]
    for each in networks.values():
        lay_out(each, "float32", device)
    space = {label: memory(network, scale, device) for label, network in networks.items()}
    steps = {label: step_of(network, scale, device) for label, network in networks.items()}
    clock = time.process_time if device.type == "cpu" else time.perf_counter
    times = by_round(steps, device, 9, warm_up=3, clock=clock)
    if device.type == "cuda":
        graphs = {f"{label}, graph": step_of(each, scale, device, graph=True) for label, each in networks.items()}
        times |= by_round(graphs, device, 9, warm_up=5)
        costs |= {f"{label}, graph": cost for label, cost in costs.items()}
    shape = " x ".join(map(str, scale.sizes))
    told = f"ResNet-20 of {scale.width} to {4 * scale.width} channels, {shape} points, batch {scale.batch}"
    lines, figures = table(told, times, space, costs)
    name, searched = ("graphs", _graphs) if device.type == "cuda" else ("sizes", _changes)
    more, figures[name] = searched(device)
    return lines + more, figures


def _changes(device: torch.device) -> tuple[list[str], dict[str, Any]]:
    """How long sets of sizes stay: those steps would replay a graph that come after its warm-up and its capture."""
    lines = ["", f"## Sets of sizes in searches on digits, {EPOCHS} epochs, cosine", ""]
    lines += [
        "| search | steps | that change the sizes | in the last tenth | that a graph would replay |",
        "|---|---|---|---|---|",
    ]
    figures = {}
    for label, (backbone, settings) in SEARCHES.items():
        sets, _ = _searched(backbone, settings, device)
        changed = [one != other for one, other in itertools.pairwise(sets)]
        stays = [len(list(run)) for _, run in itertools.groupby(sets)]
        replayed = sum(max(0, stay - WARM_UP - 1) for stay in stays) / len(sets)
        last = changed[-len(changed) // 10 :]
        shares = sum(changed) / len(changed), sum(last) / len(last), replayed
        lines.append(f"| {label} | {len(sets)} | {' | '.join(f'{share:.0%}' for share in shares)} |")
        figures[label] = dict(zip(("changed", "changed in the last tenth", "replayed"), shares, strict=True))
    return lines, figures


def _graphs(device: torch.device) -> tuple[list[str], dict[str, Any]]:
    """Searches with a CUDA graph for every set of sizes (``train.graph=on``), and without."""
    lines = ["", f"## Searches on digits with a CUDA graph for every set of sizes, {SHORT} epochs", ""]
    lines += ["| search | ms a step | with graphs | ratio |", "|---|---|---|---|"]
    figures = {}
    for label, (backbone, settings) in SEARCHES.items():
        if settings["space.step"] == 1:  # sizes change too often
            continue
        without, with_ = (_searched(backbone, settings, device, graph, SHORT)[1] for graph in ("off", "on"))
        lines.append(f"| {label} | {1000 * without:.1f} | {1000 * with_:.1f} | {with_ / without:.2f} |")
        figures[label] = with_ / without
    return lines, figures


def _searched(
    backbone: str, settings: dict[str, Any], device: torch.device, graph: str = "off", epochs: int = EPOCHS
) -> tuple[list[Any], float]:
    """The rendered sizes of every step of a search, and seconds of a step."""
    named = {"space.name": "dnarch", "backbone.name": backbone, "task.name": "digits", "train.epochs": epochs}
    config = Config().with_values({**named, "train.batch": 32, "train.graph": graph, **settings})
    task = load_task(config.task, lambda done, total: None)
    search = Search.of(complete(config, task), task)
    around = Surroundings(0, 0, device, World(), Events())
    strategy = Supernet(optimiser="adamw", learning_rate=0.01)
    prepared = strategy.prepare(search, search.start, around, "search")
    training = Training(prepared.model, prepared.task, prepared.step, prepared.config, around)
    network: Any = prepared.model.get_submodule("network")
    steps = epochs * math.ceil(len(task.train) / 32)
    seen, begun = [], time.perf_counter()
    for number in range(steps):
        training.step.set_rate(0.5 + 0.5 * math.cos(math.pi * number / steps), epochs * number / steps)
        seen.append(network.rendered())
        training.step(*training.feed.batch(number))
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return seen, (time.perf_counter() - begun) / steps


ENTRY = Entry("dnarch-residual", "Masks of DNArch in a residual network: what they cost and save", check, measure)
