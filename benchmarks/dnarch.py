"""What masks cost and save: training steps of a continuous CNN, whole, under masks, and at half of its complexity."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from benchmarks.runner import Entry, as_in_a_run, by_round, replayed
from eclose.backbones.ccnn import CCNN
from eclose.backbones.ccnn_block import BlockShape
from eclose.ops.continuous import fourier_convolution
from eclose.ops.resolution import fast_size
from eclose.signature import Signature
from eclose.spaces.dnarch.budget import Budget
from eclose.spaces.dnarch.complexity import COUNTS, BlockSizes, complexity
from eclose.spaces.dnarch.network import MaskedCCNN, trimmed
from eclose.spaces.dnarch.own_network import MaskedNetwork
from eclose.train import GradientStep, Objective, World
from eclose.train.graph import GraphStep
from eclose.train.losses import make_loss
from eclose.train.module_hooks import Verbs
from eclose.train.optimisers import make_optimiser, parameter_groups

HIDDEN = 128
Masked = TypeVar("Masked", MaskedCCNN, MaskedNetwork)


@dataclass(frozen=True)
class Scale:
    """How large everything is."""

    sizes: tuple[int, ...]
    channels: int
    width: int  # of the whole network
    blocks: int
    batch: int


SCALES = {
    "cpu": {"images": Scale((16, 16), 3, 192, 4, 16), "signals": Scale((512,), 1, 192, 4, 8)},
    "cuda": {"images": Scale((32, 32), 3, 280, 8, 50), "signals": Scale((1024,), 1, 280, 8, 50)},
}
HALVES: dict[str, tuple[str, ...]] = {  # which masks are moved, together, until half of the cost is left
    "widths": ("widths",),
    "resolutions": ("resolutions",),
    "depth": ("depth",),
    "all": ("widths", "resolutions", "depth"),
}


def masked(scale: Scale, device: torch.device) -> MaskedCCNN:
    """The whole network: every mask is as long as it may be."""
    torch.manual_seed(0)
    points = float(torch.tensor(scale.sizes).prod())
    whole = (torch.full((scale.blocks,), points), torch.full((scale.blocks, 3), float(scale.width)))
    base = BlockSizes(*whole, torch.tensor(float(scale.blocks)))
    budget = Budget(float(complexity(base, COUNTS["operations"], HIDDEN)), penalty=0.1, tolerance=0.1)
    temperatures = {"resolution": 25.0, "width": 25.0, "depth": 8.0}
    network = MaskedCCNN(
        Signature("classification", scale.channels, scale.sizes, 10),
        width=scale.width,
        blocks=scale.blocks,
        learn="KRWD",
        largest=1.0,
        temperatures=temperatures,
        learn_mean=False,
        learn_temperature=False,
        step=8,
        budget=budget,
        omega=4.0,
    )
    with torch.no_grad():
        for table in (network.widths, network.resolutions, network.depth):
            assert table is not None
            table.offset.fill_(9.0)
        assert network.kernels is not None
        network.kernels.width.fill_(9.0)
    Verbs(network).after_step()
    return network.to(device)


@torch.no_grad()
def halve(network: Masked, names: tuple[str, ...]) -> Masked:
    """Shift some masks, each by the same part of its axis, until the network costs half."""
    assert network.budget is not None
    network.budget.strict = False
    low, high = 0.0, 2.0
    before = {name: getattr(network, name).offset.clone() for name in names}
    for _ in range(20):
        shift = (low + high) / 2
        for name in names:
            getattr(network, name).offset.copy_(before[name] - shift)
            getattr(network, name).clamp()
        low, high = (shift, high) if network.relative() > 0.5 else (low, shift)
    for name in names:  # a little farther: at this very place steps would change the sizes to and fro
        getattr(network, name).offset.copy_(before[name] - high - 0.002)
        getattr(network, name).clamp()
    network.budget.goal *= network.relative()
    network.budget.strict = True
    return network


def plain(scale: Scale, device: torch.device) -> CCNN:
    """The whole network without masks."""
    torch.manual_seed(0)
    shapes = [BlockShape((scale.width,) * 3)] * scale.blocks
    signature = Signature("classification", scale.channels, scale.sizes, 10)
    return CCNN(signature, scale.width, shapes, hidden=HIDDEN, omega=4.0).to(device)


def small(network: MaskedCCNN, device: torch.device) -> CCNN:
    """What the masks leave, as a network of its own."""
    made = CCNN(network.signature, network.width, network.found(), hidden=HIDDEN, omega=4.0)
    return trimmed(network, made.to(device))


def step_of(network: nn.Module, scale: Scale, device: torch.device, graph: bool = False) -> Callable[[], None]:
    """A whole training step; as a CUDA graph if asked."""
    x = torch.randn(scale.batch, scale.channels, *scale.sizes, device=device)
    y = torch.arange(scale.batch, device=device) % 10
    optimiser = make_optimiser("adamw", parameter_groups(network, 1e-5, 0.0, decay_vectors=False), {})
    objective = Objective(make_loss("cross_entropy", {}), None)
    step: Any = GradientStep(network, objective, [optimiser], 0.0, "float32", device, World())
    step = GraphStep(step) if graph else step
    network.train()

    def run() -> None:
        step(x, y, scale.batch)

    return run


def memory(network: nn.Module, scale: Scale, device: torch.device) -> float:
    """MiB: on a GPU the peak of a step, on a CPU what a forward pass keeps for the way back."""
    others = torch.cuda.memory_allocated(device) if device.type == "cuda" else 0
    step = step_of(network, scale, device)
    if device.type == "cuda":
        step()
        torch.cuda.reset_peak_memory_stats(device)
        step()
        own = sum(parameter.nbytes for parameter in network.parameters())
        return (torch.cuda.max_memory_allocated(device) - others + own) / 2**20
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        step()
    return sum(kept.values()) / 2**20


def check(device: torch.device) -> str:
    """What is cut away changes nothing."""
    for name, scale in SCALES["cpu"].items():
        network = halve(masked(scale, device), HALVES["all"]).eval()
        x = torch.randn(4, scale.channels, *scale.sizes, device=device)
        exact = torch.backends.cudnn.flags(enabled=True, allow_tf32=False)
        with torch.no_grad(), exact:
            ours, theirs = small(network, device).eval()(x), network(x)
        assert torch.allclose(ours, theirs, rtol=1e-3, atol=1e-4), f"{name}: trimmed and masked networks differ"
    return "trimmed networks equal masked ones"


def measure(device: torch.device) -> tuple[list[str], dict[str, Any]]:
    """Rounds of one step each, variants in turn; ratios are taken within a round."""
    lines: list[str] = []
    figures: dict[str, Any] = {}
    with as_in_a_run(device):
        for name, scale in SCALES[device.type].items():
            table, figures[name] = _steps(name, scale, device)
            lines += table
        table, figures["convolution"] = _convolutions(device)
    return lines + table, figures


def _steps(name: str, scale: Scale, device: torch.device) -> tuple[list[str], dict[str, Any]]:
    networks: dict[str, nn.Module] = {
        "whole, no masks": plain(scale, device),
        "whole, all masks": masked(scale, device),
    }
    costs = {"whole, no masks": 1.0, "whole, all masks": 1.0}
    for half, tables in HALVES.items():
        network = masked(scale, device)
        assert network.budget is not None
        goal = network.budget.goal
        networks[f"half, by {half}"] = halve(network, tables)
        costs[f"half, by {half}"] = network.budget.goal / goal
    networks["half, trimmed"] = small(network, device)
    costs["half, trimmed"] = costs["half, by all"]
    space = {label: memory(network, scale, device) for label, network in networks.items()}
    steps = {label: step_of(network, scale, device) for label, network in networks.items()}
    # On a CPU that others use, too, seconds of this process say more than those on the wall.
    clock = time.process_time if device.type == "cpu" else time.perf_counter
    times = by_round(steps, device, 9, warm_up=3, clock=clock)
    if device.type == "cuda":
        graphs = {f"{label}, graph": step_of(each, scale, device, graph=True) for label, each in networks.items()}
        times |= by_round(graphs, device, 9, warm_up=5)
        costs |= {f"{label}, graph": cost for label, cost in costs.items()}
    shape = " x ".join(map(str, scale.sizes))
    told = f"{name}: {shape} points, {scale.blocks} blocks of {scale.width} channels, batch {scale.batch}"
    return table(told, times, space, costs)


def table(
    told: str, times: Mapping[str, list[float]], space: Mapping[str, float], costs: Mapping[str, float]
) -> tuple[list[str], dict[str, Any]]:
    """Times and memory of all variants beside the first."""
    lines = ["", f"## {told}", "", "| network | complexity | ms | ratio | MiB | ratio |", "|---|---|---|---|---|---|"]
    figures = {}
    first = next(iter(space.values()))
    for label, values in times.items():
        base = times["whole, no masks, graph" if "graph" in label else "whole, no masks"]
        ratio = statistics.median(one / other for one, other in zip(values, base, strict=True))
        room = space.get(label)
        said = f"{room:.0f} | {room / first:.2f}" if room else " | "
        lines.append(
            f"| {label} | {costs[label]:.2f} | {1000 * statistics.median(values):.1f} | {ratio:.2f} | {said} |"
        )
        figures[label] = {"complexity": costs[label], "time": ratio, "memory": room / first if room else None}
    return lines, figures


def _convolutions(device: torch.device) -> tuple[list[str], dict[str, float]]:
    """As many channels and samples as networks have; on a GPU as CUDA graphs, too."""
    batch, channels = (50, 280) if device.type == "cuda" else (16, 64)
    lines = ["", "## FFT convolution, forward and backward, beside rfft, product, irfft of the same sizes", ""]
    lines += [f"{channels} channels, batch {batch}; ratios of the time.", ""]
    modes = ("eager", "graph") if device.type == "cuda" else ("eager",)
    lines += [f"| input | kernel | {' | '.join(modes)} |", "|---|---|" + "---|" * len(modes)]
    figures = {}
    for sizes, points in (((1024,), (1025,)), ((4096,), (255,)), ((32, 32), (33, 33)), ((85, 85), (15, 15))):
        x = torch.randn(batch, channels, *sizes, device=device, requires_grad=True)
        kernel = torch.randn(channels, *points, device=device, requires_grad=True)
        first = [-(n // 2) for n in points]
        padded = tuple(fast_size(n + k // 2) for n, k in zip(sizes, points, strict=True))
        axes = tuple(range(-len(sizes), 0))

        def back(y: Tensor, x: Tensor = x, kernel: Tensor = kernel) -> None:
            x.grad = kernel.grad = None
            y.square().sum().backward()

        def ours(x: Tensor = x, kernel: Tensor = kernel, first: list[int] = first, back: Any = back) -> None:
            back(fourier_convolution(x, kernel, first))

        def bare(
            x: Tensor = x, kernel: Tensor = kernel, padded: Any = padded, axes: Any = axes, back: Any = back
        ) -> None:
            product = torch.fft.rfftn(x, s=padded, dim=axes) * torch.fft.rfftn(kernel, s=padded, dim=axes)
            back(torch.fft.irfftn(product, s=padded, dim=axes))

        shown, ratios = [" x ".join(map(str, each)) for each in (sizes, points)], []
        for mode in modes:
            both = {"ours": ours, "bare": bare}
            if mode == "graph":
                both = {name: replayed(run, device) for name, run in both.items()}
            times = by_round(both, device, 9)
            ratios.append(statistics.median(a / b for a, b in zip(times["ours"], times["bare"], strict=True)))
        lines.append(f"| {shown[0]} | {shown[1]} | {' | '.join(f'{ratio:.2f}' for ratio in ratios)} |")
        figures[shown[0]] = ratios[-1]
    return lines, figures


ENTRY = Entry("dnarch", "Masks of DNArch: what they cost and what they save", check, measure)
