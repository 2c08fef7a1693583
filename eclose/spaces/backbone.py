"""The space of one network: no search, the baseline that every method is compared with."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import nn

from eclose.backbones import backbones, default_backbone, make_backbone, regions, strongest
from eclose.backbones.layers import RegionAverages
from eclose.backbones.linear import PAIRS, PLACES, SHARES, Filter, Linear, LinearNetwork, TokenTable
from eclose.backbones.linear_plus import LinearPlus
from eclose.backbones.needs import need_axes
from eclose.backbones.random_filters import RandomFilters
from eclose.backbones.reference import own_label
from eclose.config import Config
from eclose.errors import ConfigError, Unsuited
from eclose.plural import plural
from eclose.signature import Signature
from eclose.spaces.explanation import MOST_ROWS, Section, Table
from eclose.spaces.genotype import Genotype
from eclose.spaces.space import Space, made_of, spaces


@spaces.register("backbone")
class BackboneSpace(Space):
    """One network, trained without search: the baseline. --trials: trainings with different seeds."""

    name = "backbone"
    strategy = "train"

    def __init__(self, config: Config) -> None:
        self.section = config.backbone
        self._fitting_known: dict[tuple[str, Signature], bool] = {}

    def start(self, signature: Signature) -> Genotype:
        """The configured network, or the default one for the kind of task."""
        return backbone_genotype(self.section.name, self.section.options, signature)

    def offers(self, signature: Signature, known: Sequence[Genotype]) -> list[Genotype]:
        """The configured network and the strongest for data of this kind, which others begin with.

        The quick one is early: there may be no time for those at the end.
        """
        if known:
            return []
        own, usual = self.start(signature), _usual(signature)
        others = [network for network in usual if network.choices["backbone"] != own.choices["backbone"]]
        return [own, *self._fitting([*_narrow(usual[0]), *others], signature)]

    def narrow(self, signature: Signature) -> list[Genotype]:
        """The strongest at a quarter of their width: many more steps in little time."""
        return self._fitting(_narrow(*_usual(signature)), signature)

    def by_regions(self, signature: Signature) -> list[Genotype]:
        """A network that tells where its features are, at a quarter of its width."""
        return self._fitting(_narrow(*_by_regions(signature)), signature)

    def wide(self, signature: Signature, best: Genotype) -> list[Genotype]:
        """The network by regions at its usual width, if the best one is its narrow form."""
        return [network for network in _by_regions(signature) if best in _narrow(network)]

    def _fitting(self, networks: Sequence[Genotype], signature: Signature) -> list[Genotype]:
        return [network for network in networks if self._fits(network, signature)]

    def _fits(self, genotype: Genotype, signature: Signature) -> bool:
        """Known by building it once: a portfolio asks anew before every training."""
        key = genotype.hash, signature
        if key not in self._fitting_known:
            try:
                with torch.random.fork_rng([]):
                    self.build(genotype, signature)
                self._fitting_known[key] = True
            except ConfigError:  # an input that is too small for it, say
                self._fitting_known[key] = False
        return self._fitting_known[key]

    def behind_linear(self, signature: Signature, known: Sequence[Genotype]) -> list[Genotype]:
        """The first two of different kinds, each behind a fitted linear map; none where that does not suit."""
        try:
            made = made_of(known, lambda network: _behind_linear(network, signature), len(known))
        except Unsuited:
            return []
        kinds: dict[str, Genotype] = {}
        for network in made:
            kinds.setdefault(network.choices["options"]["network"], network)
        return list(kinds.values())[:2]

    def build(self, genotype: Genotype, signature: Signature) -> nn.Module:
        """The network, newly initialised."""
        return plain_network(genotype, signature)

    def explain(self, genotype: Genotype, network: nn.Module) -> list[Section]:
        """That nothing was searched, and which layers there are; what a linear model sees."""
        if isinstance(network, RandomFilters):
            return [_random_section(genotype, network)]
        if isinstance(network, LinearNetwork):
            return [_linear_section(genotype, network)]
        name, options = genotype.choices["backbone"], genotype.choices["options"]
        told = ", ".join(f"{key} {value}" for key, value in options.items())
        known = f": {name}" if own_label(name) == name else ""
        words = f"{genotype.description}{known}" if genotype.description else name
        layers, weights = Counter[str](), Counter[str]()
        size = sum(parameter.numel() for parameter in network.parameters())
        for module in network.modules():
            own = sum(parameter.numel() for parameter in module.parameters(recurse=False))
            if own:
                layers[type(module).__name__] += 1
                weights[type(module).__name__] += own
        return [
            Section(
                "The network",
                (
                    f"It is {words}{f' ({told})' if told else ''}, trained as it is: nothing about it was searched.",
                    f"It has {plural(size, 'parameter')} in {plural(layers.total(), 'layer')}.",
                    *(_map_told(network) if isinstance(network, LinearPlus) else ()),
                ),
                Table(
                    ("layer", "times", "parameters"),
                    tuple((kind, layers[kind], number) for kind, number in weights.most_common(MOST_ROWS)),
                ),
            ),
            *_regions_sections(network),
        ]


_SEEN = {
    Filter: "the values near a position, the same filter for every position",
    TokenTable: "the token at a position",
}

_READ = {
    "": "the whole input",
    SHARES: "how often each token occurs",
    PAIRS: "how often each pair of neighbouring tokens occurs",
    PLACES: "which token is in which place",
}


def _linear_section(genotype: Genotype, network: LinearNetwork) -> Section:
    seen = _SEEN.get(type(network), "")
    if isinstance(network, Linear):
        seen = _READ[network.options["reads"]]
        seen += f", as {plural(network.features.count, 'number')}"
    if isinstance(network, Filter):
        seen += f" (window {' x '.join(map(str, network.weight.shape[2:]))})"
    how = "fitted in closed form, not trained" if genotype.choices.get("fitted") else "trained as it is"
    sizes = tuple((name, " x ".join(map(str, each.shape)), each.numel()) for name, each in network.named_parameters())
    return Section(
        "The linear model",
        (f"It is one linear map, {how}.", f"It sees {seen}."),
        Table(("part", "shape", "parameters"), sizes),
    )


def _map_told(network: LinearPlus) -> tuple[str, ...]:
    inputs, directions = network.basis.shape
    return (
        f"They correct a linear map of the whole input, {plural(inputs, 'number')}, which was fitted in closed form: "
        f"it sees the input along {plural(directions, 'direction')} and gives {plural(len(network.bias), 'number')}.",
    )


def _regions_sections(network: nn.Module) -> list[Section]:
    """Which regions of the input bear how much of the answers, where a network tells them apart."""
    layers, made = list(network.modules()), []
    for averages, linear in zip(layers, layers[2:], strict=False):
        if isinstance(averages, RegionAverages) and isinstance(linear, nn.Linear):
            size = linear.weight.detach().abs().sum(0).unflatten(0, (-1, *averages.parts)).sum(0)
            shares = (size / size.sum().clamp_min(1e-30)).flatten().tolist()
            rows = [(_place(number, averages.parts), share) for number, share in enumerate(shares)]
            rows.sort(key=lambda row: -row[1])
            told = (
                f"It averages its features over {plural(len(rows), 'region')} of the input. The answer weighs each of "
                "them: the network tells where a feature is.",
                f"Even weights would be {100 / len(rows):.1f} % for each.",
            )
            table = tuple((place, f"{100 * share:.1f} %") for place, share in rows[:MOST_ROWS])
            made.append(Section("Where features count", told, Table(("region", "share of the weights"), table)))
    return made


def _place(number: int, parts: tuple[int, ...]) -> str:
    """Of a region: from where to where along every axis, in hundredths."""
    places = []
    for count in reversed(parts):
        number, place = divmod(number, count)
        places.append(f"{100 * place / count:.0f} to {100 * (place + 1) / count:.0f} %")
    return ", ".join(reversed(places))


def _random_section(genotype: Genotype, network: RandomFilters) -> Section:
    """How wide the filters are, and how much of the answers each width bears."""
    shares = len(network.thresholds) * network.filters.shape[0]
    size = network.weight[:shares].detach().abs().sum(1)
    weights, start = [], 0
    for count in network.counts:
        weights.append(float(size[start : start + len(network.thresholds) * count].sum()))
        start += len(network.thresholds) * count
    total, taps = sum(weights) or 1.0, network.filters.shape[-1]
    spans = [" x ".join(str(1 + each * (taps - 1)) for each in dilation) for dilation in network.dilations]
    how = "fitted in closed form, not trained" if genotype.choices.get("fitted") else "trained; the filters are not"
    rows = zip(spans, network.counts, (f"{100 * each / total:.0f} %" for each in weights), strict=True)
    return Section(
        "Random filters",
        (
            f"It passes the input through {plural(len(network.filters), 'random filter')}, which nothing has changed.",
            f"For each of them it asks at which share of the positions the output exceeds {len(network.thresholds)} "
            f"thresholds. One linear map of these shares, and of {plural(network.view.count, 'number')} of the input "
            f"itself, gives the answer. The map was {how}.",
        ),
        Table(("points that a filter spans", "filters", "share of the weights"), tuple(rows)),
    )


def _usual(signature: Signature) -> list[Genotype]:
    return [backbone_genotype(name, {}, signature) for name in strongest(signature)]


def _by_regions(signature: Signature) -> list[Genotype]:
    if (parts := regions(signature)) == 1:
        return []
    made = backbone_genotype("resnet", {"regions": parts, "dropout": 0.5}, signature)
    return [replace(made, description="resnet by regions")]


def _narrow(*networks: Genotype) -> list[Genotype]:
    """Those that have a width, at a quarter of it: for few samples, and for machines that are slow."""
    made = []
    for network in networks:
        options = dict(network.choices["options"])
        if "width" in options:
            options["width"] = max(4, options["width"] // 4)
            narrow = {**network.choices, "options": options}
            made.append(replace(network, choices=narrow, description=f"narrow {network.label}"))
    return made


def _behind_linear(genotype: Genotype, signature: Signature) -> Genotype:
    """A network that corrects a fitted linear map, with its width and otherwise as it is by default."""
    name, options = str(genotype.choices["backbone"]), genotype.choices["options"]
    width = {"width": options["width"]} if "width" in options else {}
    made = backbone_genotype("linear_plus", {"network": name, **width}, signature) if ":" not in name else None
    if made is None or backbone_genotype(name, width, signature) != genotype:
        raise Unsuited(f"{genotype.label} has sizes of its own, and one behind a linear map cannot have them")
    return replace(made, description=f"linear model + {genotype.label}")


def backbone_genotype(name: str, options: dict[str, object], signature: Signature) -> Genotype:
    """A network by name, with all its options written out as they are used."""
    name = name or default_backbone(signature)
    if ":" not in name:
        member = backbones[name]
        need_axes(name, signature)
        options = member.complete(options, "backbone")
        options = member.effective(signature, **options) if member.effective else options
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in options.items()}
    told = own_label(name)
    return Genotype("backbone", {"backbone": name, "options": plain}, description=told if told != name else "")


def plain_network(genotype: Genotype, signature: Signature) -> nn.Module:
    """The backbone of a genotype, newly initialised: itself, or what a search has begun with."""
    return make_backbone(genotype.choices["backbone"], signature, genotype.choices["options"])
