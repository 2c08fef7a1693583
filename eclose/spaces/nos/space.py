"""The space ``nos``: cells of features, attention and dynamic convolution, searched, cut and trained anew."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import nn

from eclose.backbones.reference import one_line
from eclose.config import Config
from eclose.errors import ConfigError
from eclose.registry import nearest
from eclose.signature import Signature
from eclose.spaces.explanation import Section
from eclose.spaces.genotype import Genotype
from eclose.spaces.nos.block import DropPath
from eclose.spaces.nos.cell_cost import Budget
from eclose.spaces.nos.cells import (
    RANGES,
    crossed,
    drawn_cells,
    from_json,
    plain_cells,
    published_cells,
    sizes_from,
    to_json,
    varied,
)
from eclose.spaces.nos.early_stop import SkipLimit, check_skips
from eclose.spaces.nos.expected_cost import ExpectedCost
from eclose.spaces.nos.explanation import explain_cells
from eclose.spaces.nos.layout import KINDS, lay_out
from eclose.spaces.nos.network import Cells, ChosenNetwork
from eclose.spaces.nos.operations import FEATURES, OPERATIONS, SKIP
from eclose.spaces.nos.supernet import Architecture, Choices, Supernet, WeightHistory
from eclose.spaces.space import ContinuousSpace, SampledSpace, spaces

_PICTURE = 16  # pixels along an axis, at least
_OFFERED_CELLS, _OFFERED_WIDTH = 5, 16
_SEARCHED = ((1, 3, 4), (1, 3, 8), (2, 3, 8), (2, 5, 8), (3, 5, 12))  # blocks, cells, channels
_TRAINED = ((1, 3, 8), (1, 3, 16), (2, 3, 16), (2, 5, 16), (4, 5, 16), (4, 6, 24))
SETS = {"all": tuple(OPERATIONS), "features": FEATURES}


@spaces.register("nos")
class NosSpace(ContinuousSpace, SampledSpace):
    """Cells of features, attention and dynamic convolution: searched in a small network, then trained in a larger."""

    name = "nos"
    strategy = "bilevel"
    strategy_options = {"learning_rate": 0.003}  # searches of few epochs decide as well
    takes_backbone = False
    trained_anew = True
    turn = 2
    sizes_of_a_retraining = ("cells", "width", "auxiliary", "drop_path")
    sizes_in_time = {
        "search": [dict(zip(("blocks", "search_cells", "search_width"), sizes, strict=True)) for sizes in _SEARCHED],
        "final": [
            # Few cells need no help from the middle, which would take half as long as they.
            {**dict(zip(("blocks", "cells", "width"), sizes, strict=True)), "auxiliary": 0.0}
            for sizes in _TRAINED
        ],
    }
    of_supernets = ("search_cells", "search_width", "none", "partial", "edge_norm", "gumbel", "skips", "cost_weight")

    def __init__(
        self,
        config: Config,
        *,
        operations: str = "all",
        blocks: int = 4,
        search_cells: int = 5,
        search_width: int = 16,
        cells: int = 8,
        width: int = 32,
        auxiliary: float = 0.4,
        drop_path: float = 0.0,
        none: bool = False,
        partial: int = 1,
        edge_norm: bool = False,
        gumbel: bool = False,
        skips: int = 0,
        parameters: float = 0.0,
        flops: float = 0.0,
        cost_weight: float = 1.0,
    ) -> None:
        names = _operations(operations)
        searched = {"blocks": blocks, "search_cells": search_cells, "search_width": search_width}
        _check_counts({**searched, "cells": cells, "width": width}, partial)
        _check_limits({"skips": skips, "parameters": parameters, "flops": flops, "cost_weight": cost_weight})
        _check_shares({"auxiliary": auxiliary, "drop_path": drop_path})
        tiers = 1 if set(names) <= set(FEATURES) else 2
        self.choices = Choices(names, blocks, tiers, partial, edge_norm, gumbel, none)
        self.skips, self.limits, self.cost_weight = skips, (parameters, flops), cost_weight
        self.time = config.budget
        self.searched = (search_cells, search_width)
        self.sizes: dict[str, Any] = {
            "cells": cells,
            "width": width,
            "auxiliary": auxiliary,
            "drop_path": drop_path,
        }
        self.budgets: dict[Signature, Budget] = {}
        self.tried: set[Signature] = set()  # a strategy may ask for the start again and again
        self.epochs = (config.train.epochs, _final_epochs(config))
        self.is_own = config.space.name == self.name
        self.on_gpu = config.run.device.startswith("cuda")

    def start(self, signature: Signature) -> Genotype:
        """Cells of separable convolutions; a search forgets them, and what it finds is not named by their hash.

        The cheapest cells where those exceed a limit. Limits that nothing meets are refused here, before a run begins.
        """
        if self.choices.gumbel:
            self.time.need_epochs("space.gumbel", "cools over")
        cells, told = plain_cells(*self.choices[:3]), "plain cells"
        if any(self.limits):
            cheapest, budget = self._cheapest(signature), self._budget(signature)
            if budget.exceeded(budget.cost(cells)):
                cells, told = cheapest, "the cheapest cells"
        start = self._genotype(cells, told)
        if signature not in self.tried:
            self._try(start, signature)
            self.tried.add(signature)
        start.choices["name"] = start.choices["kin"]
        return start

    @torch.no_grad()
    def _try(self, genotype: Genotype, signature: Signature) -> None:
        """Refuse sizes of which nothing can be made, on a device that computes nothing; a search has other sizes."""
        kind = torch.long if signature.tokens else torch.float32
        try:
            with torch.device("meta"):
                self.build(genotype, signature).eval()(torch.zeros(signature.input_shape(1), dtype=kind))
        except Exception as error:  # whatever torch says of sizes
            sizes = f"space.cells={self.sizes['cells']} and space.width={self.sizes['width']}"
            raise ConfigError(
                f"no network of {sizes} can be made for these inputs ({one_line(error):.100}): choose others"
            ) from error

    @torch.no_grad()
    def _cheapest(self, signature: Signature) -> Cells:
        """Of equally cheap ones the first; limits that leave room for too many skips only are refused."""
        with torch.random.fork_rng([]):
            equal = {kind: Architecture(self.choices, 1) for kind in KINDS}
        for parameter in (each for own in equal.values() for each in own.parameters()):
            parameter.zero_()
        cost = ExpectedCost(self._budget(signature), equal, self.cost_weight)
        if self.skips:
            check_skips(cost, self.skips)
        return cost.cheapest()

    def _budget(self, signature: Signature) -> Budget:
        """The limits of the network in the end."""
        if signature not in self.budgets:
            layout = lay_out(signature, self.sizes["cells"], self.sizes["width"], self.choices.blocks)
            self.budgets[signature] = Budget(signature, layout, self.choices.blocks, self.limits)
        return self.budgets[signature]

    def build(self, genotype: Genotype, signature: Signature) -> nn.Module:
        """The network of a genotype's cells: that which is trained in the end."""
        cells, sizes = from_json(genotype.choices), sizes_from(genotype.choices)
        layout = lay_out(signature, sizes["cells"], sizes["width"], len(cells["normal"]))
        drop_path = DropPath(sizes["drop_path"], self.epochs[1])
        return ChosenNetwork(signature, layout, cells, sizes["auxiliary"], drop_path)

    def supernet(self, genotype: Genotype, signature: Signature) -> nn.Module:
        """A smaller network whose cells hold all operations."""
        choices = self.choices
        supernet = Supernet(signature, lay_out(signature, *self.searched, choices.blocks), choices, self.epochs[0])
        supernet.add_module("history", WeightHistory(supernet.architectures, self.epochs[0]))
        cost = None
        if any(self.limits):
            cost = ExpectedCost(self._budget(signature), supernet.architectures, self.cost_weight)
            supernet.add_module("cost", cost)
        if self.skips:
            supernet.add_module("skip_limit", SkipLimit(supernet.architectures, self.skips, cost))
        return supernet

    def derive(self, genotype: Genotype, network: nn.Module) -> tuple[Genotype, None]:
        """The cells of the strongest operations; their network is trained anew."""
        architectures, cost = cast(Supernet, network).architectures, getattr(network, "cost", None)
        stopped = cast(SkipLimit, network.get_submodule("skip_limit")).ended() if self.skips else ""
        cells = {kind: own.derived() for kind, own in architectures.items()} if cost is None else cost.derived()
        found = self._genotype(cells, f"cells that were searched{stopped}")
        found.choices["operations"] = list(self.choices.names)
        found.choices["shares"] = {kind: architecture.rounded() for kind, architecture in architectures.items()}
        found.choices["history"] = cast(WeightHistory, network.get_submodule("history")).told()
        return found, None

    def carry_over(self, genotype: Genotype, before: Signature, signature: Signature) -> Genotype:
        """The same cells in a network of the sizes that are set; of a portfolio, of its own sizes."""
        if not self.is_own:
            return genotype
        network = {**to_json(from_json(genotype.choices)), **self.sizes}  # somebody may have edited the cells
        return replace(genotype, choices={**genotype.choices, **network, "digest": network})

    def text(self, genotype: Genotype) -> str:
        """The cells, a line each: ``normal: 0 skip + 1 sep_conv_3 > spatial_attention; ...``."""
        return "\n".join(
            f"{kind}: "
            + "; ".join(
                " + ".join(f"{source} {name}" for source, name in block.first)
                + ("" if block.second is None else f" > {block.second}")
                for block in blocks
            )
            for kind, blocks in from_json(genotype.choices).items()
        )

    def explain(self, genotype: Genotype, network: nn.Module) -> list[Section]:
        """The cells as drawings, how clear their choices were, and how the weights of operations moved."""
        cells, told = from_json(genotype.choices), genotype.choices
        names = told.get("operations")
        if not isinstance(names, list) or any(name not in [*OPERATIONS] for name in names):  # older runs have none
            names = SETS["all" if cells["normal"][0].second is not None else "features"]
        return explain_cells(cells, names, told.get("shares"), told.get("history"))

    def sample(self, signature: Signature, generator: torch.Generator) -> Genotype:
        """Random cells within the limits: the baseline of the paper's Table 2."""
        names, blocks, tiers = self.choices[:3]
        cells = self._within(signature, lambda: drawn_cells(names, blocks, tiers, generator))
        return self._genotype(cells, "random cells")

    def mutate(self, genotype: Genotype, signature: Signature, generator: torch.Generator) -> Genotype | None:
        """One block drawn anew."""
        cells = from_json(genotype.choices)
        return self._child(signature, lambda: varied(cells, self.choices.names, generator), "varied cells")

    def crossover(
        self, first: Genotype, second: Genotype, signature: Signature, generator: torch.Generator
    ) -> Genotype | None:
        """Blocks of both."""
        parents = from_json(first.choices), from_json(second.choices)
        return self._child(signature, lambda: crossed(*parents, generator), "crossed cells")

    def _child(self, signature: Signature, draw: Callable[[], Cells], description: str) -> Genotype | None:
        try:
            return self._genotype(self._within(signature, draw), description)
        except ConfigError:  # other parents may have children within the limits
            return None

    def _within(self, signature: Signature, draw: Callable[[], Cells]) -> Cells:
        """Drawn until they keep the limits."""
        return self._budget(signature).within(draw) if any(self.limits) else draw()

    def offers(self, signature: Signature, known: Sequence[Genotype]) -> list[Genotype]:
        """A small network of published cells, for pictures on a GPU: elsewhere a short training is too short for it."""
        pictures = signature.pooled and signature.axes == 2 and min(signature.sizes) >= _PICTURE
        if not (known and pictures and self.on_gpu):
            return []
        small = {**self.sizes, "cells": _OFFERED_CELLS, "width": _OFFERED_WIDTH}
        return [_genotype(published_cells(), small, "DARTS cells", "cells that DARTS found")]

    def seeds(self, signature: Signature) -> list[Genotype]:
        """The plain cells."""
        return [self.start(signature)]

    def _genotype(self, cells: Cells, description: str) -> Genotype:
        return _genotype(cells, self.sizes, "NOS cells" if self.choices.tiers == 2 else "DARTS cells", description)


def _genotype(cells: Cells, sizes: Mapping[str, Any], kin: str, description: str) -> Genotype:
    network = {**to_json(cells), **sizes}
    # How strong other operations were makes no other network.
    return Genotype(NosSpace.name, {**network, "digest": network, "kin": kin}, description=description)


def _check_counts(counts: Mapping[str, int], partial: int) -> None:
    for option, value in counts.items():
        least, most = RANGES[option.removeprefix("search_")]
        if not least <= value <= most:
            wanted = f"at least {least}" if value < least else f"at most {most}"
            raise ConfigError(f"space.{option} is {value}, but must be {wanted}")
    if partial < 1:
        raise ConfigError(f"space.partial is {partial}, but must be at least 1")
    if counts["search_width"] % partial:
        raise ConfigError(f"space.partial is {partial}, but must divide space.search_width, {counts['search_width']}")


def _check_limits(limits: Mapping[str, float]) -> None:
    for option, limit in limits.items():
        if not 0 <= limit < math.inf:
            raise ConfigError(f"space.{option} is {limit}, but must be at least 0 and finite")


def _check_shares(shares: Mapping[str, float]) -> None:
    for option, share in shares.items():
        if not 0 <= share < 1:
            raise ConfigError(f"space.{option} is {share}, but must be at least 0 and below 1")


def _operations(given: str) -> tuple[str, ...]:
    """Those of a set, or single ones by their names, in the order of the records."""
    if given in SETS:
        return SETS[given]
    names = [name.strip() for name in given.split(",")]
    for name in names:
        if name not in OPERATIONS:
            raise ConfigError(f"space.operations is '{given}'; {nearest(name, (*SETS, *OPERATIONS))}")
    if not set(names) & set(FEATURES):
        raise ConfigError(f"space.operations is '{given}', but one of them must give features, such as {SKIP}")
    return tuple(name for name in OPERATIONS if name in names)


def _final_epochs(config: Config) -> int:
    """Over how many epochs drop-path rises: those of the training that ends a run."""
    section: Mapping[str, Any] = config.final.options.get("train", {})
    return int(section.get("epochs") or config.train.epochs)
