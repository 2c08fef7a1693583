"""The space ``dnarch``: kernel sizes, resolutions, widths and depth of a continuous CNN (DNArch paper).

Of other residual networks it learns resolutions, widths and depth (``own_space.py``).
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn

from eclose.backbones.ccnn import CCNN, check_options
from eclose.backbones.ccnn_block import BlockShape
from eclose.backbones.factory import behind_embedding
from eclose.backbones.reference import own_label
from eclose.config import Config
from eclose.errors import ConfigError, Unsuited
from eclose.plural import plural
from eclose.registry import nearest
from eclose.signature import Signature
from eclose.spaces.backbone import backbone_genotype
from eclose.spaces.dnarch import own_space
from eclose.spaces.dnarch.budget import Budget
from eclose.spaces.dnarch.complexity import COUNTS, LATENCY, Weighing, backbone_cost, in_words, weighing_of
from eclose.spaces.dnarch.ends import cost_of_ends
from eclose.spaces.dnarch.explanation import explain_own_sizes, explain_sizes
from eclose.spaces.dnarch.latency import calibrated
from eclose.spaces.dnarch.network import MaskedCCNN, trimmed
from eclose.spaces.dnarch.own_network import MaskedNetwork
from eclose.spaces.dnarch.own_network import trimmed as trimmed_network
from eclose.spaces.explanation import Section
from eclose.spaces.genotype import Genotype
from eclose.spaces.space import ContinuousSpace, spaces
from eclose.train.device import choose_device, torch_settings, usual_precision

WIDE_START = 0.7  # of kernels; those of the paper (0.0325) have not grown enough when a short training ends
LETTERS = {"K": "kernel sizes", "R": "resolutions", "W": "widths", "D": "depth"}
_FEWEST, _MOST = 8, 4096  # points along the longest axis, and of a sample, for a portfolio
_NAMES = (("W", "width"), ("D", "blocks"))
_WIDE = 128  # channels from which on rendered widths are multiples of 8
_LARGEST = 16  # times as wide and deep: beyond that no memory holds it
_FEWEST_WEIGHTS = 5  # of a run that was measured before memory had terms of its own
_FOR_CCNN = {"largest": 2.0, "kernel_width": WIDE_START, "learn_mean": False}
_SLACK = 0.05  # what was found is at most so far from its target


@spaces.register("dnarch")
class DNArchSpace(ContinuousSpace):
    """Kernel sizes, resolutions, widths and depth, learned by masks while the weights are; no training afterwards."""

    name = "dnarch"
    strategy = "supernet"
    strategy_options = {"optimiser": "adamw", "learning_rate": 0.01}
    backbone = "ccnn"
    measured_options = ("weighing",)
    turn = 2  # it is slower than the plain networks of a portfolio

    def __init__(
        self,
        config: Config,
        *,
        learn: str = "",
        target: float = 0.0,
        count: str = "operations",
        largest: float = 2.0,
        penalty: float = 0.1,
        growth: float = 1.0,
        strict: bool = True,
        resolution_temperature: float = 25.0,
        width_temperature: float = 25.0,
        depth_temperature: float = 8.0,
        kernel_width: float = WIDE_START,
        learn_mean: bool = False,
        learn_temperature: bool = False,
        step: int = 0,
        latency_batch: int = 0,
        weighing: tuple[float, ...] = (),
    ) -> None:
        self.run, self.precision = config.run, config.train.precision
        self.section, self.epochs = config.backbone, max(1, config.train.epochs)
        if not set(learn) <= set(LETTERS) or len(set(learn)) < len(learn):
            raise ConfigError(
                f"space.learn is '{learn}', but must be letters of KRWD, each once: such as K, KR or KRWD"
            )
        if count not in (known := {*COUNTS, LATENCY}):
            raise ConfigError(f"space.count is '{count}'; {nearest(count, known)}")
        fits = count == LATENCY and _FEWEST_WEIGHTS <= len(weighing) <= len(Weighing())
        if weighing and not (fits and min(weighing) >= 0):
            raise ConfigError("space.weighing is what space.count=latency has measured: leave it out")
        temperatures = {"resolution": resolution_temperature, "width": width_temperature, "depth": depth_temperature}
        least = {"target": 0.0, "penalty": 0.0, "growth": 1.0, "largest": 1.0, "step": 0, "latency_batch": 0}
        given = {"target": target, "penalty": penalty, "growth": growth, "largest": largest, "step": step}
        given["latency_batch"] = latency_batch
        for name, value in given.items():
            if not least[name] <= value < math.inf:
                raise ConfigError(f"space.{name} is {value}, but must be at least {least[name]:g} and finite")
        if latency_batch and count != LATENCY:
            raise ConfigError(
                f"space.latency_batch is {latency_batch}, but nothing is timed: "
                f"set space.count={LATENCY}, or leave it out"
            )
        if largest > _LARGEST:
            raise ConfigError(
                f"space.largest is {largest:g}, but must be at most {_LARGEST}: begin with a larger network instead, "
                "backbone.width and backbone.blocks"
            )
        for name, value in temperatures.items():
            if not 4 <= value <= 1000:
                raise ConfigError(f"space.{name}_temperature is {value}, but must be at least 4 and at most 1000")
        if not 0 < kernel_width <= 2:
            raise ConfigError(f"space.kernel_width is {kernel_width}, but must be above 0 and at most 2")
        self.given: dict[str, Any] = {
            "learn": learn,
            "target": target,
            "count": count,
            **({"latency_batch": latency_batch or max(1, config.train.batch)} if count == LATENCY else {}),
            "weighing": list(weighing or COUNTS.get(count, ())),
            "largest": largest,
            "temperatures": temperatures,
            "kernel_width": kernel_width,
            "learn_mean": learn_mean,
            "learn_temperature": learn_temperature,
        }
        self.pull: dict[str, Any] = {"penalty": penalty, "growth": growth, "strict": strict}
        self.time = config.budget
        self.step = step

    def start(self, signature: Signature) -> Genotype:
        """The backbone: masks leave as much of a larger network as it has, or as the target allows."""
        if self.pull["growth"] > 1:
            self.time.need_epochs("space.growth", "follows")
        backbone = backbone_genotype(self.section.name or self.backbone, self.section.options, signature)
        return self._from(backbone, signature)

    def offers(self, signature: Signature, known: Sequence[Genotype]) -> list[Genotype]:
        """A network of the usual sizes, where there are points for kernels to grow along, and not too many."""
        if not known:
            return []
        points = math.prod(signature.sizes)
        if max(signature.sizes) < _FEWEST or points > _MOST:
            raise Unsuited(
                f"dnarch is offered for {_FEWEST} points or more along an axis, and {_MOST} at most in all: "
                f"not for {' x '.join(map(str, signature.sizes))}"
            )
        return [self._from(backbone_genotype(self.backbone, {}, signature), signature)]

    def _from(self, backbone: Genotype, signature: Signature) -> Genotype:
        name = backbone.choices["backbone"]
        make = self._continuous if name == self.backbone else self._own
        masks = make(backbone, signature)
        learn = masks["learn"]
        what = "sizes" if len(learn) > 2 else " and ".join(LETTERS[one] for one in learn)
        words = f"{own_label(name)} with learned {what}"
        return Genotype(self.name, {**backbone.choices, "masks": masks}, description=words)

    def _continuous(self, backbone: Genotype, signature: Signature) -> dict[str, Any]:
        """The masks of a continuous CNN."""
        options = backbone.choices["options"]
        masks = {**self.given, "learn": self.given["learn"] or "".join(LETTERS)}
        masks["target"] = masks["target"] or (1.0 if set(masks["learn"]) & set("WD") else 0.0)
        check_options(signature, **options)
        if options["causal"] and "R" in masks["learn"]:
            raise ConfigError(
                "space.learn has R, but a coarser signal knows of its future, which backbone.causal forbids: "
                "set space.learn=KWD"
            )
        if options["kernel"] and "K" in masks["learn"]:
            raise ConfigError(
                f"backbone.kernel is {options['kernel']}, but kernel sizes are learned: leave it out; "
                "space.kernel_width says how wide they begin"
            )
        widest = round(options["width"] * masks["largest"])
        most = widest if "W" in masks["learn"] else options["width"]
        self._check_step(most)
        masks["step"] = self._step(widest)
        if (count := masks["count"]) in COUNTS:
            ends = [cost_of_ends(count, signature, width, options) for width in (most, options["width"])]
            masks["weighing"] = list(weighing_of(count, options["dropout"], *ends))
        elif not masks["weighing"]:
            masks["weighing"] = self._measured(partial(calibrated, signature, options, most, masks["latency_batch"]))
        return masks

    def _own(self, backbone: Genotype, signature: Signature) -> dict[str, Any]:
        """The masks of any other network: it is as large as it may become."""
        name = backbone.choices["backbone"]
        for option, usual in _FOR_CCNN.items():
            if self.given[option] not in (usual, 1.0 if option == "largest" else usual):
                raise ConfigError(
                    f"space.{option} is {self.given[option]}, but is for ccnn only: leave it out for '{name}'"
                )
        with torch.random.fork_rng([]):
            plan = own_space.backbone_and_plan(backbone.choices, signature, self.given)[1]
        masks = {**self.given, "learn": own_space.learnable(plan, self.given["learn"], name), "largest": 1.0}
        masks["target"] = masks["target"] or (own_space.USUAL_TARGET if set(masks["learn"]) & set("WD") else 0.0)
        self._check_step(max((width.channels for width in plan.widths), default=self.step))
        if not masks["weighing"]:
            masks["weighing"] = self._measured(
                partial(own_space.calibrated, backbone.choices, signature, masks["latency_batch"])
            )
        return masks

    def _measured(self, measure: Callable[[torch.device, str], Weighing]) -> list[float]:
        """What is measured once, as the run computes: on its device, with its threads and its precision."""
        device = choose_device(self.run.device)
        precision = usual_precision(device) if self.precision == "auto" else self.precision
        with torch_settings(self.run, precision):
            self.given["weighing"] = list(measure(device, precision))
        return list(self.given["weighing"])

    def _step(self, widest: int) -> int:
        return self.step or (8 if widest >= _WIDE else 1)

    def _check_step(self, most: int) -> None:
        if self.step > most:
            raise ConfigError(
                f"space.step is {self.step}, but the network has {plural(most, 'channel')} at most: "
                "choose a part of them, or leave it out"
            )

    def effective(self, signature: Signature) -> dict[str, Any]:
        """What is left to follow from the network: what is learned, how large it may become, what it may cost."""
        masks = self.start(signature).choices["masks"]
        measured = {name: masks[name] for name in ("weighing", "latency_batch") if masks["count"] == LATENCY}
        return {name: masks[name] for name in ("learn", "target", "largest")} | measured

    def notices(self, signature: Signature) -> list[str]:
        """What the network may become, and what it may cost."""
        choices = self.start(signature).choices
        options, masks = choices["options"], choices["masks"]
        if choices["backbone"] != self.backbone:
            with torch.random.fork_rng([]):
                plan = own_space.backbone_and_plan(choices, signature, masks)[1]
            return own_space.own_notices(plan, choices["backbone"], masks)
        learned = own_space.listed([LETTERS[letter] for letter in masks["learn"]])
        most = {"W": round(options["width"] * masks["largest"]), "D": round(options["blocks"] * masks["largest"])}
        sizes = [most[letter] if letter in masks["learn"] else options[name] for letter, name in _NAMES]
        told = f"dnarch learns {learned} of a ccnn with {_sizes(*sizes)} at most"
        if masks["target"]:
            base = _sizes(options["width"], options["blocks"])
            much = "as much as" if masks["target"] == 1 else f"{masks['target']:g} times"
            told += f"; by {in_words(masks, whole=False)} it costs {much} one with {base}"
        return [told]

    def supernet(self, genotype: Genotype, signature: Signature) -> nn.Module:
        """The largest network under masks; what has been found already has none."""
        choices = genotype.choices
        if "blocks" in choices:
            return self.build(genotype, signature)
        if choices["backbone"] == self.backbone:
            return behind_embedding(signature, lambda seen: self._masked(genotype, seen))
        network = own_space.masked(choices, signature, self.step or 1, {"epochs": self.epochs, **self.pull})
        masks = choices["masks"]
        if masks["target"]:
            _check_target(network, masks["target"], *own_space.ways_out(network.plan, masks["learn"], masks["target"]))
        return network

    def _masked(self, genotype: Genotype, signature: Signature) -> MaskedCCNN:
        options, masks = dict(genotype.choices["options"]), dict(genotype.choices["masks"])
        width, blocks = options.pop("width"), options.pop("blocks")
        target, weighing = masks.pop("target"), Weighing(*masks.pop("weighing"))
        masks.pop("count")
        masks.pop("latency_batch", None)
        budget = None
        if target:
            points = math.prod(signature.sizes) // (2 if options["pair"] else 1)
            base = backbone_cost(points, width, blocks, weighing, options["hidden"])
            budget = Budget(target * base, epochs=self.epochs, **self.pull)
        step = self._step(round(width * masks["largest"]))  # of a run whose masks do not say theirs
        given: dict[str, Any] = {"step": step, "budget": budget, "weighing": weighing, **masks, **options}
        network = MaskedCCNN(signature, width=width, blocks=blocks, **given)
        if target:
            _check_target(network, target, *_ways_out(genotype.choices["masks"], causal=options["causal"]))
        return network

    def build(self, genotype: Genotype, signature: Signature) -> nn.Module:
        """The network of the sizes that were found, or of those that a search begins with."""
        if "blocks" not in genotype.choices:
            with torch.random.fork_rng([]):
                genotype = self._found(genotype, _masked_part(self.supernet(genotype, signature)))
        if genotype.choices["backbone"] != self.backbone:
            return own_space.built(genotype.choices, signature)
        return behind_embedding(signature, lambda seen: _plain(genotype, seen))

    def derive(self, genotype: Genotype, network: nn.Module) -> tuple[Genotype, nn.Module]:
        """What the masks have left, as a network without them."""
        masked = _masked_part(network)
        masked.after_step()  # weights that were averaged may have left the budget
        found = self._found(genotype, masked)
        if isinstance(masked, MaskedNetwork):
            return found, trimmed_network(masked)
        with torch.random.fork_rng([]):
            plain = _plain(found, masked.signature).to(masked.encoder.weight.device)
        plain = trimmed(masked, plain).train(network.training)
        if masked is network:
            return found, plain
        return found, nn.Sequential(OrderedDict(embedding=network.get_submodule("embedding"), network=plain))

    def _found(self, genotype: Genotype, network: MaskedCCNN | MaskedNetwork) -> Genotype:
        masks = genotype.choices["masks"]
        choices: dict[str, Any] = {key: value for key, value in genotype.choices.items() if key != "masks"}
        if isinstance(network, MaskedNetwork):
            choices["blocks"] = own_space.found_blocks(network.plan, network.sizes(), network.resolution())
        else:
            choices |= {"width": network.width, "blocks": [shape.as_dict() for shape in network.found()]}
            choices["most_blocks"] = len(network.blocks)
        choices["learned"] = masks["learn"]
        if network.budget is not None:
            choices |= {name: masks[name] for name in ("target", "count", "latency_batch") if name in masks}
            choices["complexity"] = masks["target"] * network.relative()
        return replace(genotype, choices=choices)

    def carry_over(self, genotype: Genotype, before: Signature, signature: Signature) -> Genotype:
        """The sizes as they are: they are shares of an axis, or numbers of channels."""
        own, blocks = genotype.choices["backbone"] != self.backbone, genotype.choices.get("blocks", [])
        if signature.axes != before.axes and (not own or any("resolution" in block for block in blocks)):
            raise ConfigError("kernel sizes and resolutions belong to their axes: search on data of this kind")
        if own and blocks:
            with torch.random.fork_rng([]):
                own_space.built(genotype.choices, signature)
        return genotype

    def remark(self, genotype: Genotype) -> str:
        """Of a network that is not within its budget: what it costs."""
        choices = genotype.choices
        if "complexity" not in choices or abs(choices["complexity"] / choices["target"] - 1) <= _SLACK:
            return ""
        why = "its sizes are too coarse for that" if self.pull["strict"] else "space.strict=true keeps to it"
        counted = in_words(choices, whole=choices.get("backbone") != self.backbone)
        return (
            f"by {counted} it costs {choices['complexity']:.3g} times what the backbone costs, but "
            f"space.target was {choices['target']:g}: {why}"
        )

    def explain(self, genotype: Genotype, network: nn.Module) -> list[Section]:
        """All sizes, block by block."""
        if genotype.choices["backbone"] != self.backbone:
            return explain_own_sizes(genotype, network)
        return explain_sizes(genotype, network)


def _masked_part(network: nn.Module) -> MaskedCCNN | MaskedNetwork:
    part = network if isinstance(network, MaskedCCNN | MaskedNetwork) else network.get_submodule("network")
    assert isinstance(part, MaskedCCNN | MaskedNetwork)
    return part


def _plain(genotype: Genotype, signature: Signature) -> CCNN:
    options = {key: v for key, v in genotype.choices["options"].items() if key not in ("width", "blocks", "kernel")}
    shapes = [BlockShape.from_dict(shape) for shape in genotype.choices["blocks"]]
    return CCNN(signature, genotype.choices["width"], shapes, **options)


def _check_target(network: MaskedCCNN | MaskedNetwork, target: float, up: str, down: str) -> None:
    """Refuse a target that no network of the space has; ``up`` and ``down`` say what leads to larger, smaller ones."""
    reached = target * network.relative()
    if abs(reached / target - 1) > _SLACK:
        raise ConfigError(
            f"space.target is {target:g}, but the nearest that these masks reach is {reached:.3g} times the cost of "
            f"the backbone: choose that, or {up if reached < target else down}"
        )


def _ways_out(masks: Mapping[str, Any], *, causal: bool) -> tuple[str, str]:
    """What leads to larger, and to smaller networks."""
    learn, largest, of_weights = set(masks["learn"]), masks["largest"], masks["count"] == "parameters"
    known = "KWD" if causal else "KRWD"
    more = f"learn more sizes (space.learn={known})"
    smaller = ["a smaller space.largest"] if largest > 1 else []
    smaller += ["a smaller backbone.hidden"] if of_weights else []  # most of what no mask reaches
    # Masks leave a part at least.
    smaller += ["a larger space.width_temperature together with a larger backbone.width"]
    costly = set(known) - set("KR" if of_weights else "K")
    return (
        "a larger space.largest or backbone.width" if set("WD") <= learn else more,
        ", or ".join(smaller) if costly <= learn else more,
    )


def _sizes(width: int, blocks: int) -> str:
    return f"{plural(width, 'channel')} and {plural(blocks, 'block')}"
