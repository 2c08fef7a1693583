"""Any residual network under masks: what they leave of its blocks is computed, with its own code.

Channels inside of a branch are masked behind the last norm, which would undo a factor: in its gain and shift where only
ReLU and the like follow, else in the columns of the weights that read them. What a depth mask leaves of a branch goes
into the weights of its last layer. So masks cost nothing, and :func:`trimmed` leaves the network itself with smaller
layers (``cutting.py``). Masks of resolutions are low-passes in front of branches (``coarse_blocks.py``).
"""

import contextlib
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from eclose.errors import ConfigError
from eclose.ops.masks import Lines, SigmoidMasks, lengths, places, sigmoid, steepest
from eclose.ops.resolution import frequencies, low_pass_filters, low_sizes, multiplications, takes_transforms
from eclose.spaces.difference import difference, tensors_in
from eclose.spaces.dnarch.budget import Budget, Budgeted, Offsets
from eclose.spaces.dnarch.coarse_blocks import Coarse, Resolution
from eclose.spaces.dnarch.complexity import Weighing
from eclose.spaces.dnarch.cutting import (
    Masks,
    Sizes,
    Skippable,
    cut,
    module_at,
    narrowed,
    switches_of,
    unwrapped,
    wrapped,
)
from eclose.spaces.dnarch.plan import Coarsening, Plan, Powers
from eclose.spaces.trace import copied, run
from eclose.train.module_hooks import capturing

_READ = "leave out layers whose weights, channels or positions its code reads itself"


class MaskedNetwork(Budgeted, nn.Module):
    """A residual network under masks; ``learn`` has letters: R resolutions, W widths, D depth."""

    static_shapes = False

    def __init__(
        self,
        network: nn.Module,
        plan: Plan,
        *,
        learn: str,
        temperatures: Mapping[str, float],
        learn_temperature: bool,
        step: int,
        weighing: Weighing,
    ) -> None:
        super().__init__()
        self.plan, self.step, self.costs = plan, step, Costs(plan, network, weighing)
        self.places = tuple(width.channels // width.unit for width in plan.widths)
        self.stages = plan.stages
        learned = {"learn_temperature": learn_temperature}
        self.widths = self.resolutions = self.depth = None
        if "W" in learn:
            heats = [min(temperatures["width"], steepest(number)) for number in self.places]
            self.widths = SigmoidMasks((len(heats),), heats, **learned)
        if "R" in learn:
            table = [coarse.temperatures for coarse in plan.coarse]
            self.resolutions = SigmoidMasks((len(table), len(table[0])), table, **learned)
        if "D" in learn:
            heats = [min(temperatures["depth"], steepest(len(stage) + 1)) for stage in self.stages]
            self.depth = SigmoidMasks((len(heats),), heats, **learned)
        self._lines: dict[tuple[Any, ...], Lines] = {}
        self.at = wrapped(network, plan, switches=self.depth is not None, coarse=self.resolutions is not None)
        self.network, self.budget, self.virtual = network, None, False

    def keep_to(self, budget: Budget) -> None:
        """Begin within a budget, and stay there."""
        self.budget = budget
        self.begin_at_target()

    def forward(self, x: Tensor) -> Tensor:
        """What the network gives, computed at the sizes that masks leave."""
        sizes = self.sizes_of_graph if capturing() else self.rendered()
        masks = self.masks()
        for switch, is_open in zip(switches_of(self.network, self.plan), sizes.open, strict=True):
            if switch is not None:
                switch.open = is_open
        for module, points, responses in zip(self._coarse(), sizes.points, masks.responses, strict=True):
            module.masks = points, low_pass_filters(responses, module.trained, points)
        y: Tensor = functional_call(self.network, cut(self.network, self.plan, sizes, masks, self.at), (x,))
        for module in self._coarse():
            module.masks = None
        return y

    def _coarse(self) -> Iterator[Coarse]:
        for coarse in self.plan.coarse if self.resolutions is not None else ():
            module = module_at(self.network, self.plan.blocks[coarse.block])
            module = module.block if isinstance(module, Skippable) else module
            assert isinstance(module, Coarse)
            yield module

    def rendered(self, *, known: bool = False) -> Sizes:
        """What is computed now."""
        sizes = self.sizes(known=known)
        if self.virtual:  # on fewer points a branch is another function
            return Sizes.whole(self.plan)._replace(points=sizes.points)
        return sizes._replace(widths=tuple(self._rounded(*each) for each in enumerate(sizes.widths)))

    def _rounded(self, number: int, channels: int) -> int:
        """Widths up to the next multiple of the step: fewer different sizes keep the allocator calm."""
        width = self.plan.widths[number]
        step = self.step if width.unit == 1 else width.unit
        return min(width.channels, -(-channels // step) * step)

    @torch.no_grad()
    def sizes(self, *, known: bool = False) -> Sizes:
        """What the masks leave."""
        offsets = self.offsets_on_host(known=known)
        widths, is_open, points = Sizes.whole(self.plan)
        if "widths" in offsets:
            covered = self._covered(*offsets["widths"]).int().tolist()
            widths = tuple(n * width.unit for n, width in zip(covered, self.plan.widths, strict=True))
        if "resolutions" in offsets:
            points = tuple(map(tuple, self._points(*offsets["resolutions"]).int().tolist()))
        if "depth" in offsets:
            depths = self._depths(*offsets["depth"]).int().tolist()
            closed = {block for stage, depth in zip(self.stages, depths, strict=True) for block in stage[depth:]}
            is_open = tuple(number not in closed for number in range(len(is_open)))
        return Sizes(widths, is_open, points)

    def _points(self, offset: Tensor, temperature: Tensor) -> Tensor:  # (coarse blocks, axes)
        return low_sizes(offset, temperature, [coarse.sizes for coarse in self.plan.coarse])

    def _covered(self, offset: Tensor, temperature: Tensor) -> Tensor:  # (widths,)
        return lengths(offset, temperature, torch.tensor(self.places, dtype=offset.dtype, device=offset.device))

    def _depths(self, offset: Tensor, temperature: Tensor) -> Tensor:  # (stages,)
        """How many blocks of every stage are computed. The first place of a mask is what comes before the stage."""
        numbers = torch.tensor([len(stage) + 1 for stage in self.stages], dtype=offset.dtype, device=offset.device)
        return lengths(offset, temperature, numbers) - 1

    def masks(self) -> Masks:
        """Their values, to be multiplied into weights."""
        widths: list[Tensor | None] = [None] * len(self.plan.widths)
        blocks: list[Tensor | None] = [None] * len(self.plan.blocks)
        if self.widths is not None:
            for number, values in enumerate(self._values(self.widths, self.places)):
                unit = self.plan.widths[number].unit
                widths[number] = values if unit == 1 else values[:, None].expand(-1, unit).flatten()
        if self.depth is not None:
            rows = self._values(self.depth, tuple(len(stage) + 1 for stage in self.stages))
            for stage, values in zip(self.stages, rows, strict=True):
                for block, value in zip(stage, values.unbind()[1:], strict=True):
                    blocks[block] = value
        return Masks(widths, blocks, self._responses())

    def _responses(self) -> list[Sequence[Tensor]]:
        if self.resolutions is None:
            return []
        points = tuple(size for coarse in self.plan.coarse for size in coarse.sizes)
        each, axes = self._values(self.resolutions, points, _frequencies), self.resolutions.offset.shape[1]
        return [each[start : start + axes] for start in range(0, len(each), axes)]

    def _values(
        self, table: SigmoidMasks, numbers: tuple[int, ...], line: Callable[[int], Tensor] = places
    ) -> tuple[Tensor, ...]:
        """All masks of a table along their lines."""
        key = numbers, table.offset.device, line
        if key not in self._lines:  # for good: a CUDA graph may read them
            with torch.inference_mode(False):  # a training may come to use them, too
                self._lines[key] = Lines([line(number) for number in numbers], table.offset.device)
        lines = self._lines[key]
        return lines.split(sigmoid(lines.at, table.offset.reshape(-1, 1), table.temperature.reshape(-1, 1)))

    def tables(self) -> dict[str, nn.Module]:
        """See :class:`Budgeted`."""
        names = ("widths", "resolutions", "depth")
        return {name: table for name in names if (table := getattr(self, name)) is not None}

    def cost(self, offsets: Offsets) -> Tensor:  # ()
        """See :class:`Budgeted`."""
        numbers = torch.tensor(self.places, dtype=torch.float32)
        parts = self._covered(*offsets["widths"]) / numbers if "widths" in offsets else torch.ones_like(numbers)
        depths = self._depths(*offsets["depth"]) if "depth" in offsets else None
        points = self._points(*offsets["resolutions"]) if "resolutions" in offsets else None
        return self.costs(parts, depths, points).float()

    def resolution(self) -> dict[int, Resolution]:
        """The masks over frequencies, by the number of their block."""
        if self.resolutions is None:
            return {}
        host = self.on_host()
        rows = zip(host["resolutions.offset"].tolist(), host["resolutions.temperature"].tolist(), strict=True)
        return {c.block: Resolution(*map(tuple, row)) for c, row in zip(self.plan.coarse, rows, strict=True)}

    def counted(self, offsets: Offsets) -> Hashable:
        """See :class:`Budgeted`."""
        count = {"widths": self._covered, "resolutions": self._points, "depth": self._depths}
        return str([count[name](*pair).tolist() for name, pair in offsets.items()])


def _frequencies(points: int) -> Tensor:
    """Where those of so many points lie on the axis of a mask."""
    return frequencies(points, points, points, torch.device("cpu"), last=True)


class Costs:
    """What a network costs by the parts of its channels that are left, by its depth and by the points of its blocks.

    Every layer and function counts, with its products, the values that it gives, its parameters, and what it keeps in a
    training step.
    """

    def __init__(self, plan: Plan, network: nn.Module, weighing: Weighing) -> None:
        made = {value: number + 1 for number, width in enumerate(plan.widths) for value in width.values}
        read = {path: number + 1 for number, width in enumerate(plan.widths) for path in width.readers}
        home = {
            v: number + 1 for number, block in enumerate(plan.blocks) if block.closing for v in block.closing.spared
        }
        powers = {value: pair for coarse in plan.coarse for value, pair in coarse.powers.items()}
        left = {id(parameter): (path, parameter.numel()) for path, parameter in network.named_parameters()}
        sums: dict[tuple[int, int, int, int], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        for value in plan.recording.values:
            layer = network.get_submodule(value.path) if value.path else nn.Identity()
            of = made.get(value.number, 0), read.get(value.path, 0), home.get(value.number, 0)
            power = powers.get(value.number, Powers())
            sums[*of, power.products][0] += weighing.products * value.products
            sums[*of, power.size][1] += weighing.values * value.size
            row = sums[*of, 0]
            row[2] += weighing.blocks * bool(value.sources)
            for parameter in layer.parameters():  # matrices belong to what is made and read, vectors to what is made
                row[parameter.ndim == 1] += weighing.parameters * left.pop(id(parameter), ("", 0))[1]
        for kept in plan.recording.kept:  # what only a block keeps is spared with it
            homes = {home.get(kept.owner, 0) or home.get(saver, 0) for saver in kept.savers}
            only = homes.pop() if len(homes) == 1 else 0
            power = powers.get(kept.owner, Powers())
            sums[made.get(kept.owner, 0), 0, only, power.kept][1] += weighing.kept * kept.size
        closings = {f"{block.closing.path}.": n + 1 for n, block in enumerate(plan.blocks) if block.closing}
        for path, number in left.values():  # of functions
            at = next((n for closing, n in closings.items() if path.startswith(closing)), 0)
            sums[0, 0, at, 0][2] += weighing.parameters * number
        self.plan, self.stages, self.weighing = plan, plan.stages, weighing
        self.made, self.read, self.home, self.power = torch.tensor(list(sums)).T
        self.joint, self.single, self.fixed = torch.tensor(list(sums.values()), dtype=torch.float64).T

    def __call__(
        self, parts: Tensor, depths: Tensor | None = None, points: Tensor | None = None
    ) -> Tensor:  # (widths,), (stages,), (coarse blocks, axes)
        """The sum over all that is computed. Depth has the gradient of so many blocks of mean cost."""
        parts = torch.cat([parts.new_ones(1), parts]).double()
        made, read = parts[self.made], parts[self.read]
        rows = self.joint * made * read + self.single * made + self.fixed
        blocks = rows.new_zeros(len(self.plan.blocks) + 1)
        if points is not None:
            places = torch.tensor([coarse.block + 1 for coarse in self.plan.coarse])
            sizes = torch.tensor([coarse.sizes for coarse in self.plan.coarse], dtype=torch.float64)
            shares = torch.ones_like(blocks).index_put((places,), (points / sizes).prod(-1))
            rows = rows * shares[self.home] ** self.power
            moved = [_moving(*pair, self.weighing) for pair in zip(self.plan.coarse, points.double(), strict=True)]
            blocks = blocks.index_put((places,), torch.stack(moved))
        blocks = blocks.index_add(0, self.home, rows)
        if depths is None:
            return blocks.sum()
        total = blocks[0]
        for stage, depth in zip(self.stages, depths.unbind(), strict=True):
            each = torch.stack([blocks[number + 1] for number in stage])
            total = total + each[: int(depth.detach())].sum() + each.detach().mean() * (depth - depth.detach())
        return total

    def backbone(self) -> float:
        """That of the network as it is, without any masks."""
        return float(self(torch.ones(len(self.plan.widths))))

    def of(self, sizes: Sizes) -> float:
        """That of a network of these sizes."""
        parts = [size / width.channels for size, width in zip(sizes.widths, self.plan.widths, strict=True)]
        depths = [float(sum(sizes.open[block] for block in stage)) for stage in self.stages]
        points = torch.tensor(sizes.points, dtype=torch.float64) if sizes.points else None
        return float(self(torch.tensor(parts, dtype=torch.float64), torch.tensor(depths), points))


def _moving(coarse: Coarsening, points: Tensor, weighing: Weighing) -> Tensor:  # (axes,)
    """What it costs to bring what a branch is given to fewer points, and its output back."""
    down, up = multiplications(coarse.sizes, points), multiplications(coarse.sizes, points, up=True)
    number, few, many = len(coarse.down), points.prod(), math.prod(coarse.sizes)
    kept = number * few * takes_transforms(coarse.sizes)
    for signal in coarse.down:  # the branch reads fewer points; the mask needs all of them
        kept = kept + few * signal.read + many * (not signal.kept)
    each = weighing.products * (number * down + up) + weighing.values * (number * few + many) + weighing.kept * kept
    return coarse.channels * each + (number + 1) * weighing.blocks


@torch.no_grad()
def trimmed(masked: MaskedNetwork) -> nn.Module:
    """What the masks leave, as a network without them."""
    network = unwrapped(copied(masked.network), masked.plan)
    return narrowed(network, masked.plan, masked.sizes(), masked.masks(), masked.resolution())


def rehearse(masked: MaskedNetwork, example: Tensor) -> None:
    """Refuse a network that is another function once channels are cut and blocks are skipped instead of zeroed."""
    _refuse_second_runs(masked, example)
    for name in masked.tables():
        twin = copied(masked)
        assert isinstance(twin, MaskedNetwork)
        with torch.no_grad():
            twin.get_parameter(f"{name}.offset").fill_(-0.2)
        for table in twin.tables().values():
            table.clamp()  # type: ignore[operator]
        try:
            ours = run(twin, example)
        except ConfigError as error:
            raise ConfigError(f"with fewer channels or blocks, {error}; {_READ}") from error
        twin.virtual = True
        if found := difference(ours, run(twin, example), torch.finfo(torch.float32).eps):
            raise ConfigError(f"with fewer channels or blocks, the network is another function, with {found}; {_READ}")


def _refuse_second_runs(masked: MaskedNetwork, example: Tensor) -> None:
    """Layers are cut for the way there alone: those that run again on the way back would have all of their channels."""
    twin, again = copied(masked).train(), list[nn.Module]()
    with torch.random.fork_rng([]), contextlib.suppress(Exception):  # other failures are told where they are looked for
        output = twin(example.clone())
        for module in twin.modules():
            module.register_forward_pre_hook(lambda module, _: again.append(module))
        torch.stack([tensor.sum() for tensor in tensors_in(output)]).sum().backward()
    if again:
        raise ConfigError(
            "the network runs layers again on the way back (torch.utils.checkpoint), where masks do not reach them: "
            "switch that off for the search"
        )
