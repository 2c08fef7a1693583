"""Where a network comes from: its ancestors among the trials, and what each changed."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from eclose.config import Config
from eclose.display.networks import Metric
from eclose.display.wording import listed, score
from eclose.runs import Trial
from eclose.spaces import Genotype, space_of


@dataclass(frozen=True)
class Ancestor:
    """One network on the way; ``lines`` are those of its text, each with whether its parents lack it."""

    name: str
    parents: str
    change: str  # against its parents, in words
    figure: str
    lines: list[tuple[str, bool]]


def lineage(trials: Sequence[Trial], number: int) -> list[Trial]:
    """The trial ``number`` after all that it descends from, oldest first."""
    known = {trial.number: trial for trial in trials}
    waiting, found = [number], set[int]()
    while waiting:
        one = waiting.pop()
        if one in known and one not in found:
            found.add(one)
            waiting.extend(known[one].parents)
    return [known[one] for one in sorted(found)]


def genealogy(trials: Sequence[Trial], number: int | None, metric: Metric, config: Config) -> list[Ancestor]:
    """The ancestors of a trial and itself as texts; nothing for one that has none, or that people cannot read."""
    line = [] if number is None else lineage(trials, number)
    texts = {trial.number: _text(trial, config) for trial in line} if len(line) > 1 else {}
    if not any(texts.values()):
        return []
    names = {trial.number: trial.name for trial in line}
    return [
        Ancestor(
            trial.name,
            listed([names[parent] for parent in trial.parents if parent in names]),
            trial.description.partition(": ")[2],
            score(metric.name, trial.valid),
            _marked(texts[trial.number], [texts[parent] for parent in trial.parents if parent in texts]),
        )
        for trial in line
    ]


def _marked(lines: list[str], parents: list[list[str]]) -> list[tuple[str, bool]]:
    """Lines that no parent has at that place are new; where there is no parent, none is."""
    old = [not parents] * len(lines)
    bare = [line.strip() for line in lines]  # the same part may stand deeper
    for parent in parents:
        matcher = difflib.SequenceMatcher(None, [line.strip() for line in parent], bare, autojunk=False)
        for block in matcher.get_matching_blocks():
            old[block.b : block.b + block.size] = [True] * block.size
    return [(line, not known) for line, known in zip(lines, old, strict=True)]


def _text(trial: Trial, config: Config) -> list[str]:
    genotype = _genotype(trial)
    return space_of(genotype, config).text(genotype).splitlines()


def _genotype(trial: Trial) -> Genotype:
    return Genotype(trial.space, trial.genotype)
