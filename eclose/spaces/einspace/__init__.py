"""einspace (paper 003): whole architectures drawn from a probabilistic grammar of fundamental operations."""

from eclose.spaces.einspace.build import build
from eclose.spaces.einspace.chain import digest
from eclose.spaces.einspace.consistency import Consistency, consistency
from eclose.spaces.einspace.crossover import crossover
from eclose.spaces.einspace.grammar import Tree
from eclose.spaces.einspace.mutate import mutate
from eclose.spaces.einspace.offspring import NoChild
from eclose.spaces.einspace.sample import sample
from eclose.spaces.einspace.seeds import SEEDS
from eclose.spaces.einspace.settings import Settings
from eclose.spaces.einspace.survey import cost_of
from eclose.spaces.einspace.text import from_json, parse, text, to_json

__all__ = [
    "SEEDS",
    "Consistency",
    "NoChild",
    "Settings",
    "Tree",
    "build",
    "consistency",
    "cost_of",
    "crossover",
    "digest",
    "from_json",
    "mutate",
    "parse",
    "sample",
    "text",
    "to_json",
]
