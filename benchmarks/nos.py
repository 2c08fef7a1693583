"""Cells: what attention and dynamic convolution add to a search step, what our bookkeeping costs, cells by hand."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.chrysalis import silent, step_of
from benchmarks.runner import Entry, by_round
from benchmarks.training_loop import images
from eclose.ops.dynamic import convolved
from eclose.signature import Signature
from eclose.spaces.nos.block import BlockChoice
from eclose.spaces.nos.drop_path import DropPath
from eclose.spaces.nos.evaluation import EvaluationNetwork
from eclose.spaces.nos.layout import NORMAL, REDUCTION, Layout, Place, lay_out
from eclose.spaces.nos.network import CellNetwork
from eclose.spaces.nos.operations import FEATURES, OPERATIONS
from eclose.spaces.nos.supernet import Choices, Supernet
from eclose.train.layout import lay_out as channels_last

BLOCKS = 4
CELLS = {
    NORMAL: (
        BlockChoice(((0, "sep_conv_3"), (1, "spatial_attention")), "dynamic_conv_3"),
        BlockChoice(((0, "channel_attention"), (1, "sep_conv_3")), "skip"),
        BlockChoice(((1, "skip"), (2, "dil_conv_3")), "channel_attention"),
        BlockChoice(((0, "sep_conv_5"), (3, "dynamic_conv_5")), "sep_conv_3"),
    ),
    REDUCTION: (
        BlockChoice(((0, "max_pool_3"), (1, "sep_conv_3")), "skip"),
        BlockChoice(((0, "skip"), (1, "max_pool_3")), "channel_attention"),
        BlockChoice(((1, "sep_conv_3"), (2, "spatial_attention")), "skip"),
        BlockChoice(((0, "max_pool_3"), (2, "skip")), "dil_conv_3"),
    ),
}


class Scale(NamedTuple):
    """How large networks are here."""

    sizes: tuple[int, int]
    batch: int
    cells: int  # of a search
    width: int
    chosen: tuple[int, int, int]  # cells, width and batch of the network in the end
    rounds: int


PAPER = Scale((32, 32), 64, 8, 16, (20, 36, 96), 9)
SMALL = Scale((16, 16), 8, 3, 8, (5, 12, 8), 5)


def scale_of(device: torch.device) -> Scale:
    """That of the paper on a GPU; on a CPU one that ends."""
    return PAPER if device.type == "cuda" else SMALL


def signature_of(scale: Scale) -> Signature:
    """Small coloured images."""
    return Signature("classification", 3, scale.sizes, 10)


def replayed(run: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """The same as a CUDA graph, where there is a GPU."""
    if device.type != "cuda":
        return run
    stream, graph = torch.cuda.Stream(device), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream(device).wait_stream(stream)
    with torch.cuda.graph(graph, stream=stream):
        run()
    return graph.replay


def passes(network: nn.Module, x: Tensor, precision: torch.dtype | None = None) -> Callable[[], None]:
    """Forward and backward."""

    def run() -> None:
        for parameter in network.parameters():
            parameter.grad = None
        with torch.autocast(x.device.type, precision or torch.bfloat16, enabled=precision is not None):
            y = network(x)
        y.float().square().mean().backward()

    return run


def supernet(names: tuple[str, ...], device: torch.device) -> tuple[Supernet, Tensor]:
    """A searched network of two tiers, and a batch."""
    scale, signature = scale_of(device), signature_of(scale_of(device))
    torch.manual_seed(0)
    network = Supernet(signature, lay_out(signature, scale.cells, scale.width, BLOCKS), Choices(names, BLOCKS))
    return network.to(device), torch.randn(scale.batch, 3, *scale.sizes, device=device)


def one_by_one(network: Supernet, x: Tensor) -> Callable[[], None]:
    """All parts of a supernet, each on numbers of its own: no weights, no sums, nothing of ours between them."""
    layout, batch, parts = network.layout, len(x), list[tuple[nn.Module, Tensor]]()

    def numbers(channels: int, sizes: Sequence[int]) -> Tensor:
        return torch.randn(batch, channels, *sizes, device=x.device, requires_grad=True)

    for place, cell in zip(layout.places, network.cells, strict=True):
        read = [numbers(c, s) for c, s in zip(place.channels, place.sizes, strict=True)]
        parts += [(cell.before, read[0]), (cell.last, read[1])]
        for block in cell.blocks:
            for tier, sources in ((block.first, range(len(block.first.edges))), (block.second, [-1])):
                for edge, source in zip(tier.edges, sources, strict=True):
                    site = place.site(source)
                    own = [operation for operation in edge if list(operation.children())]  # a skip is nothing
                    parts += [(operation, numbers(site.channels, site.sizes)) for operation in own]

    def run() -> None:
        for module, own in parts:
            own.grad = None
            for parameter in module.parameters():
                parameter.grad = None
            module(own).sum().backward()

    return run


class ByHand(CellNetwork):
    """The cells above, written down as one would: equations (3) and (5) term by term, no tiers, no choices."""

    def __init__(self, signature: Signature, layout: Layout, ours: EvaluationNetwork) -> None:
        class Nothing(nn.Module):
            def __init__(self, place: Place, number: int) -> None:
                super().__init__()

        super().__init__(signature, layout, BLOCKS, Nothing, affine=True)
        self.stem, self.head, self.cells = ours.stem, ours.head, nn.ModuleList()
        hands = {NORMAL: NormalByHand, REDUCTION: ReductionByHand}
        self.cells.extend(hands[p.kind](c) for p, c in zip(layout.places, ours.cells, strict=True))

    def forward(self, x: Tensor) -> Tensor:
        before, last = self.stem(x)
        for cell in self.cells:
            before, last = last, cell(before, last)
        answer: Tensor = self.head([last])
        return answer


class CellByHand(nn.Module):
    """Holds the layers of one of our cells under short names."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.before, self.last = cell.before, cell.last
        for number, block in enumerate(cell.blocks):
            for letter, module in zip("abc", [*block.first.operations, *block.second.operations], strict=True):
                setattr(self, f"{letter}{number}", module)


class NormalByHand(CellByHand):
    """Figure 4 style, normal."""

    def forward(self, before: Tensor, last: Tensor) -> Tensor:
        s, t = self.before(before), self.last(last)
        h = self.a0(s)
        h = h + h * self.b0(t)
        n0 = h + convolved(h, self.c0(h))
        h = self.b1(t)
        n1 = h + h * self.a1(s)
        h = t + self.b2(n0)
        n2 = h + h * self.c2(h)
        h = self.a3(s)
        h = h + convolved(h, self.b3(n1))
        n3 = self.c3(h)
        return torch.cat([n0, n1, n2, n3], dim=1)


class ReductionByHand(CellByHand):
    """Likewise, reduction."""

    def forward(self, before: Tensor, last: Tensor) -> Tensor:
        s, t = self.before(before), self.last(last)
        n0 = self.a0(s) + self.b0(t)
        h = self.a1(s) + self.b1(t)
        n1 = h + h * self.c1(h)
        h = self.a2(t)
        n2 = h + h * self.b2(n0)
        n3 = self.c3(self.a3(s) + n0)
        return torch.cat([n0, n1, n2, n3], dim=1)


def chosen(device: torch.device) -> tuple[EvaluationNetwork, ByHand, Tensor]:
    """Our network and the one by hand, with the same layers."""
    scale, signature = scale_of(device), signature_of(scale_of(device))
    cells, width, batch = scale.chosen
    layout = lay_out(signature, cells, width, BLOCKS)
    torch.manual_seed(0)
    ours = EvaluationNetwork(signature, layout, CELLS, 0.0, DropPath(0.0)).to(device)
    channels_last(ours, "bfloat16", device)
    return ours, ByHand(signature, layout, ours), torch.randn(batch, 3, *scale.sizes, device=device)


def check(device: torch.device) -> str:
    """Cells by hand are our cells."""
    ours, theirs, x = chosen(device)
    ours, theirs, x = ours.double().eval(), theirs.double().eval(), x[:4].double()
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-6, atol=1e-6)
    return "the cells by hand give what ours give, in double precision"


def measure(device: torch.device) -> list[str]:
    """All variants of one table take turns; ratios are taken within a round."""
    scale = scale_of(device)
    everything, features = supernet(tuple(OPERATIONS), device), supernet(FEATURES, device)
    how = "as CUDA graphs" if device.type == "cuda" else "eager"
    lines = [f"Forward and backward, {how}; median of {scale.rounds} rounds, variants in turn."]
    lines += _table(
        f"Search: {scale.cells} cells of {scale.width} channels, batch {scale.batch}, two tiers",
        {
            "feature operations only": passes(*features),
            "all operations one by one": one_by_one(*everything),
            "all operations": passes(*everything),
        },
        device,
        {"all operations": ("feature operations only", "all operations one by one")},
    )
    ours, theirs, x = chosen(device)
    cells, width, batch = scale.chosen
    lines += _table(
        f"Chosen cells: {cells} cells of {width} channels, batch {batch}, bfloat16",
        {"by hand": passes(theirs, x, torch.bfloat16), "ours": passes(ours, x, torch.bfloat16)},
        device,
        {"ours": ("by hand",)},
    )
    return lines + _whole_steps(device)


def _whole_steps(device: torch.device) -> list[str]:
    scale = scale_of(device)
    task, what = images(4 * scale.batch)
    sizes = {"space.search_cells": scale.cells, "space.search_width": scale.width, "train.batch": scale.batch}
    given: dict[str, Any] = {"space.name": "nos", **sizes}
    graphs = ("auto", "off") if device.type == "cuda" else ("auto",)
    steps = {
        f"{name}, graph {graph}": step_of(task, device, **{**given, "space.operations": own, "train.graph": graph})
        for name, own in (("plain DARTS", "features"), ("NOS", "all"))
        for graph in graphs
    }
    runs = {name: silent(step) for name, step in steps.items()}
    return _table(f"Whole bilevel steps, first order, {what}", runs, device, {}, captured=False)


def _table(
    title: str,
    variants: dict[str, Callable[[], None]],
    device: torch.device,
    ratios: dict[str, tuple[str, ...]],
    captured: bool = True,
) -> list[str]:
    runs = {name: replayed(run, device) if captured else run for name, run in variants.items()}
    seconds = by_round(runs, device, scale_of(device).rounds, warm_up=5)
    lines = ["", f"## {title}", "", "| | ms | ratio |", "|---|---|---|"]
    for name, values in seconds.items():
        told = [
            f"{statistics.median(a / b for a, b in zip(values, seconds[other], strict=True)):.2f} of {other}"
            for other in ratios.get(name, ())
        ]
        lines.append(f"| {name} | {1000 * statistics.median(values):.1f} | {'; '.join(told)} |")
    return lines


ENTRY = Entry("nos", "Cells: search steps, bookkeeping, chosen cells by hand", check, measure)
