"""Cells: what attention and dynamic convolution add to a search step, what our bookkeeping costs, cells by hand.

Every variant is measured as it is searched or trained: with the settings of torch of such a run, eager and as a CUDA
graph. What runs out of memory or cannot be captured has a line that says so, and all others go on.
"""

import statistics
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.chrysalis import silent
from benchmarks.nos_by_hand import BLOCKS, CELLS, ByHand
from benchmarks.runner import Entry, as_in_a_run, by_round, replayed
from benchmarks.training_loop import images
from eclose.config import Config
from eclose.engine import Search, complete, make_strategy
from eclose.events import Events
from eclose.ops.dynamic import convolved
from eclose.signature import Signature
from eclose.spaces.nos.block import DropPath
from eclose.spaces.nos.layout import lay_out
from eclose.spaces.nos.network import ChosenNetwork
from eclose.spaces.nos.operations import FEATURES, OPERATIONS
from eclose.spaces.nos.supernet import Choices, Supernet
from eclose.tasks import Task
from eclose.train import Surroundings, World
from eclose.train.data import Feed
from eclose.train.memory_layout import lay_out as channels_last

Run = Callable[[], None]
SEARCH_GOAL, BOOKKEEPING_GOAL, HAND_GOAL = 1.5, 1.1, 1 / 0.9  # at most, in times


class Scale(NamedTuple):
    """How large networks are here."""

    sizes: tuple[int, int]
    batch: int
    cells: int  # of a search
    width: int
    chosen: tuple[int, int, int]  # cells, width and batch of the network in the end
    rounds: int


PAPER = Scale((32, 32), 64, 8, 16, (20, 36, 96), 7)
SMALL = Scale((16, 16), 8, 3, 8, (5, 12, 8), 5)


def scale_of(device: torch.device) -> Scale:
    """That of the paper on a GPU; on a CPU one that ends."""
    return PAPER if device.type == "cuda" else SMALL


def signature_of(scale: Scale) -> Signature:
    """Small coloured images."""
    return Signature("classification", 3, scale.sizes, 10)


def passes(network: nn.Module, x: Tensor, precision: torch.dtype | None = None) -> Run:
    """Forward and backward."""

    def run() -> None:
        for parameter in network.parameters():
            parameter.grad = None
        with torch.autocast(x.device.type, precision or torch.bfloat16, enabled=precision is not None):
            y = network(x)
        y.float().square().mean().backward()

    return run


def supernet(device: torch.device) -> tuple[Supernet, Tensor]:
    """A searched network of all operations, and a batch."""
    scale, signature = scale_of(device), signature_of(scale_of(device))
    torch.manual_seed(0)
    layout = lay_out(signature, scale.cells, scale.width, BLOCKS)
    network = Supernet(signature, layout, Choices(tuple(OPERATIONS), BLOCKS))
    return network.to(device), torch.randn(scale.batch, 3, *scale.sizes, device=device)


def one_by_one(network: Supernet, x: Tensor) -> Run:
    """All parts of a supernet, each on numbers of its own: no weights, no sums, nothing of ours between them."""
    layout, batch, parts = network.layout, len(x), list[tuple[nn.Module, Tensor, Tensor]]()

    def numbers(channels: int, sizes: Sequence[int]) -> Tensor:
        return torch.randn(batch, channels, *sizes, device=x.device, requires_grad=True)

    def add(module: nn.Module, own: Tensor) -> None:
        with torch.no_grad():
            parts.append((module, own, torch.randn_like(module(own))))

    for place, cell in zip(layout.places, network.cells, strict=True):
        read = [numbers(c, s) for c, s in zip(place.channels, place.sizes, strict=True)]
        add(cell.before, read[0])
        add(cell.last, read[1])
        for block in cell.blocks:
            for tier, sources in ((block.first, range(len(block.first.edges))), (block.second, [-1])):
                for edge, source in zip(tier.edges, sources, strict=True):
                    site = place.site(source)
                    own = numbers(site.channels, site.sizes)
                    for operation in edge:
                        if list(operation.children()):  # a skip is nothing
                            add(operation, own)

    def run() -> None:
        for module, own, gradient in parts:
            own.grad = None
            for parameter in module.parameters():
                parameter.grad = None
            module(own).backward(gradient)

    return run


def search_step(task: Task, device: torch.device, names: Sequence[str], tiers: int, graph: str) -> Run:
    """A whole step of a search, first order, with the reading of its batches: forward, backward, optimisers, twice."""
    scale = scale_of(device)
    sizes = {"space.search_cells": scale.cells, "space.search_width": scale.width, "train.batch": scale.batch}
    given = {"space.name": "nos", "run.device": device.type, "optimiser.name": "sgd", "train.graph": graph, **sizes}
    config = complete(Config().with_values(given), task)
    search = Search.of(config, task)
    search.space.choices = search.space.choices._replace(names=tuple(names), tiers=tiers)  # type: ignore[attr-defined]
    torch.manual_seed(0)
    around = Surroundings(0, 0, device, World(), Events())
    ready = make_strategy(config).prepare(search, search.start, around, "search")
    ready.model.train()
    feed, taken = Feed.of(ready.task, config, 0, device, World()), iter(range(10**9))

    def step() -> Tensor:
        ready.step.set_rate(1.0, 0.5)
        return ready.step(*feed.batch(next(taken)))

    return silent(step)


def chosen(device: torch.device) -> tuple[ChosenNetwork, ByHand, Tensor]:
    """Our network as a run in bfloat16 lays it out, and the one by hand, with the same layers."""
    scale, signature = scale_of(device), signature_of(scale_of(device))
    cells, width, batch = scale.chosen
    layout = lay_out(signature, cells, width, BLOCKS)
    torch.manual_seed(0)
    ours = ChosenNetwork(signature, layout, CELLS, 0.0, DropPath(0.0)).to(device)
    channels_last(ours, "bfloat16", device)
    return ours, ByHand(signature, layout, ours), torch.randn(batch, 3, *scale.sizes, device=device)


def by_taps(x: Tensor, kernels: Tensor) -> Tensor:
    """Another way to convolve every sample with kernels of its own: one shifted product after another."""
    taps, (height, width) = kernels.shape[-1], x.shape[2:]
    padded = F.pad(x, (taps // 2,) * 4)
    output = torch.zeros_like(x)
    for i in range(taps):
        for j in range(taps):
            shifted = padded[:, :, i : i + height, j : j + width]
            output = torch.addcmul(output, shifted, kernels[:, :, i, j, None, None])
    return output


def by_windows(x: Tensor, kernels: Tensor) -> Tensor:
    """And another: a product of all windows with all kernels."""
    taps = kernels.shape[-1]
    windows = F.unfold(x, taps, padding=taps // 2).unflatten(1, (x.shape[1], -1))  # (batch, channels, taps, points)
    return torch.einsum("bctp,bct->bcp", windows, kernels.flatten(2)).view(x.shape)


WAYS = {"one grouped convolution (ours)": convolved, "tap by tap": by_taps, "windows": by_windows}


def check(device: torch.device) -> str:
    """Cells by hand are our cells, and all ways of a dynamic convolution agree."""
    ours, theirs, x = chosen(device)
    ours, theirs, x = ours.double().eval(), theirs.double().eval(), x[:4].double()
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-6, atol=1e-6)
    features, kernels = (torch.randn(2, 3, *sizes, dtype=torch.float64, device=device) for sizes in ((6, 5), (3, 3)))
    for way in WAYS.values():
        torch.testing.assert_close(way(features, kernels), convolved(features, kernels))
    return "the cells by hand give what ours give, in double precision"


def measure(device: torch.device) -> list[str]:
    """All variants of one table take turns; ratios are taken within a round."""
    scale, modes = scale_of(device), ("eager", "graph") if device.type == "cuda" else ("eager",)
    lines = [f"Median of {scale.rounds} rounds, variants in turn; ratios are taken within a round."]
    with as_in_a_run(device):
        for mode in modes:
            lines += _search_steps(device, mode)
        for mode in modes:
            lines += _bookkeeping(device, mode)
        for mode in modes:
            lines += _chosen(device, mode)
        return lines + _layouts(device, modes[-1]) + _dynamic(device, modes[-1])


def _search_steps(device: torch.device, mode: str) -> list[str]:
    scale, graph = scale_of(device), "on" if mode == "graph" else "off"
    task, what = images(32 * scale.batch)
    networks = {"features only, one tier (DARTS)": (FEATURES, 1), "features only": (FEATURES, 2)}
    variants = {
        name: lambda own=own: search_step(task, device, *own, graph)
        for name, own in {**networks, "all operations": (tuple(OPERATIONS), 2)}.items()
    }
    title = f"Search steps, {mode}: {scale.cells} cells of {scale.width} channels, batch {scale.batch}, {what}"
    return _table(title, variants, device, "all operations", "features only", SEARCH_GOAL)


def _bookkeeping(device: torch.device, mode: str) -> list[str]:
    network, x = supernet(device)
    ways = {"its operations one by one": one_by_one, "the supernet": passes}
    variants = {name: lambda way=way: _in_mode(way(network, x), device, mode) for name, way in ways.items()}
    title = f"Forward and backward of the supernet, {mode}"
    return _table(title, variants, device, "the supernet", "its operations one by one", BOOKKEEPING_GOAL)


def _chosen(device: torch.device, mode: str) -> list[str]:
    (cells, width, batch), (ours, theirs, x) = scale_of(device).chosen, chosen(device)
    variants = {
        name: lambda network=network: _in_mode(passes(network, x, torch.bfloat16), device, mode)
        for name, network in (("by hand", theirs), ("ours", ours))
    }
    title = f"Forward and backward of chosen cells, {mode}: {cells} cells of {width} channels, batch {batch}, bfloat16"
    return _table(title, variants, device, "ours", "by hand", HAND_GOAL)


def _layouts(device: torch.device, mode: str) -> list[str]:
    """Chosen cells by precision, channels first and last; a run takes them first in TF32, last in bfloat16."""
    if device.type != "cuda":
        return []
    variants = {}
    for precision, dtype in (("tf32", None), ("bfloat16", torch.bfloat16)):
        for place, kind in (("first", torch.contiguous_format), ("last", torch.channels_last)):

            def make(kind: torch.memory_format = kind, dtype: torch.dtype | None = dtype) -> Run:
                ours, _, x = chosen(device)
                ours.to(memory_format=kind)  # type: ignore[call-overload]
                return _in_mode(passes(ours, x, dtype), device, mode)

            variants[f"{precision}, channels {place}"] = make
    return _table(f"Chosen cells by their layout, {mode}", variants, device)


def _dynamic(device: torch.device, mode: str) -> list[str]:
    """Forward and backward of one dynamic convolution of five points, the features channels last and first."""
    scale = scale_of(device)
    _, width, batch = scale.chosen
    kinds = {"first": torch.contiguous_format, "last": torch.channels_last}
    variants = {}
    for place, kind in kinds.items():
        for name, way in WAYS.items():

            def make(kind: torch.memory_format = kind, way: Callable[..., Tensor] = way) -> Run:
                dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
                x, kernels = (
                    torch.randn(batch, width, *sizes, device=device, dtype=dtype) for sizes in (scale.sizes, (5, 5))
                )
                x, gradient = x.to(memory_format=kind).requires_grad_(), torch.randn_like(x, memory_format=kind)
                kernels.requires_grad_()

                def run() -> None:
                    x.grad = kernels.grad = None
                    way(x, kernels).backward(gradient)

                return _in_mode(run, device, mode)

            variants[f"{name}, channels {place}"] = make
    return _table(f"Dynamic convolution of 5 x 5 points, {mode}", variants, device)


def _in_mode(run: Run, device: torch.device, mode: str) -> Run:
    return replayed(run, device) if mode == "graph" else run


def _table(
    title: str,
    variants: dict[str, Callable[[], Run]],
    device: torch.device,
    ours: str = "",
    other: str = "",
    goal: float = 0.0,
) -> list[str]:
    """Milliseconds of each variant; of ``ours`` how many times ``other`` it takes, and whether that meets the goal."""
    runs, failed = dict[str, Run](), dict[str, str]()
    for name, make in variants.items():
        try:
            runs[name] = make()
            by_round({name: runs[name]}, device, 0, warm_up=5)
        except Exception as error:  # out of memory, or a capture that fails: the other variants still count
            runs.pop(name, None)
            failed[name] = " ".join(f"{type(error).__name__}: {error}".split())[:160]
    seconds = by_round(runs, device, scale_of(device).rounds, warm_up=1)
    lines = ["", f"## {title}", "", "| | ms |", "|---|---|"]
    lines += [f"| {name} | {1000 * statistics.median(values):.2f} |" for name, values in seconds.items()]
    lines += [f"| {name} | failed: {why} |" for name, why in failed.items()]
    if ours in seconds and other in seconds:
        ratio = statistics.median(a / b for a, b in zip(seconds[ours], seconds[other], strict=True))
        verdict = "met" if ratio <= goal else "missed"
        lines += ["", f"{ours}: {ratio:.2f} times {other} (goal: at most {goal:.2f}, {verdict})."]
    if device.type == "cuda":
        runs.clear()
        torch.cuda.empty_cache()
    print("\n".join(lines), file=sys.stderr, flush=True)
    return lines


ENTRY = Entry("nos", "Cells: search steps, bookkeeping, chosen cells by hand", check, measure)
