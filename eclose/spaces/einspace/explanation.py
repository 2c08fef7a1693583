"""What a search found: which steps, how deep, how much of the network it descends from, and a drawing."""

from collections import Counter

from torch import nn

from eclose.plural import plural
from eclose.spaces.einspace.descent import Descent, operations
from eclose.spaces.einspace.diagram import graph
from eclose.spaces.einspace.grammar import Branch, Op, Route, Sequential, Tree, children, factor
from eclose.spaces.einspace.normal_form import Chain, chain
from eclose.spaces.einspace.terminals.options import EVERY
from eclose.spaces.einspace.wording import parts
from eclose.spaces.explanation import Section, Table
from eclose.spaces.genotype import Genotype

_MODULES = {Sequential: "one after the other", Branch: "branches", Route: "routed"}


def explain(tree: Tree, genotype: Genotype, network: nn.Module) -> list[Section]:
    """Of the derivation of ``genotype`` and the network that was trained."""
    links = chain(tree)
    line = Descent.of_choice(genotype.choices.get("descent"))
    compared = line if line and line.of else None
    drawing = graph(tree, compared.kept, compared.root) if compared else graph(tree)
    found = Section("The network", _sentences(tree, links, network), _table(links), drawing)
    origin = _origin(genotype, line, links)
    return [found, Section("Where it comes from", origin)] if origin else [found]


def _sentences(tree: Tree, links: Chain, network: nn.Module) -> tuple[str, ...]:
    modules = _modules(tree)
    told = ", ".join(f"{modules[kind]} {words}" for kind, words in _MODULES.items() if modules[kind])
    size = sum(parameter.numel() for parameter in network.parameters())
    return (
        f"The network has {plural(sum(_steps(links).values()), 'step')}, "
        f"{_longest(links)} of them on its longest path, and {plural(size, 'parameter')}.",
        f"Its derivation has {plural(modules.total(), 'module')} ({told}), nested {_depth(tree)} deep.",
    )


def _table(links: Chain) -> Table:
    """Steps by what they are, the most frequent first."""
    rows = sorted(_steps(links).items(), key=lambda row: (-row[1], row[0]))
    return Table(("step", "times"), tuple(rows))


def outline(tree: Tree) -> str:
    """A network in a few words: ``9 steps: linear layer 4 times, norm, softmax and others``."""
    steps = _steps(chain(tree))
    common = [f"{words} {times} times" if times > 1 else words for words, times in steps.most_common(3)]
    return f"{plural(steps.total(), 'step')}: {', '.join(common)}{' and others' if len(steps) > 3 else ''}"


def _origin(genotype: Genotype, line: Descent | None, links: Chain) -> tuple[str, ...]:
    name = genotype.choices.get("name")
    if name:
        return (f"It is {name}, a known network that the search began with.",)
    if line is None:
        return ()
    told = f"It descends from {line.root} in {plural(line.generation, 'generation')}."
    if line.of:
        new = len(operations(links)) - line.shared
        told += f" {line.shared} of the {line.of} operations of {line.root} are still in it, {new} are new."
    _, _, change = genotype.description.partition(": ")
    return (told, f"The last change: {change}.") if change else (told,)


def _steps(links: Chain, copies: int = 1) -> Counter[str]:
    """How often each step is built, its sizes left out; a fork counts by how its branches meet."""
    total: Counter[str] = Counter()
    for part in parts(links):
        if part.fork is None:
            total[part.words] += copies
            continue
        fork = part.fork
        total[f"branches, then {EVERY[fork.merge.name].words}"] += copies
        times = factor(fork.split) // len(fork.branches)
        for branch in fork.branches:
            total += _steps(branch, copies * times)
    return total


def _longest(links: Chain) -> int:
    """Steps on the longest path; a fork is one, besides those of its longer branch."""
    return sum(1 + max(map(_longest, part.fork.branches)) if part.fork else 1 for part in parts(links))


def _modules(tree: Tree) -> Counter[type]:
    """Productions of a derivation, those of M -> C left out."""
    if isinstance(tree, Op):
        return Counter()
    return sum(map(_modules, children(tree)), Counter({type(tree): 1}))


def _depth(tree: Tree) -> int:
    """Modules within modules."""
    inner = [_depth(part) for part in children(tree)]
    return 1 + max(inner) if inner else 0
