"""einspace (Ericsson et al. 2024): whole architectures drawn from a probabilistic grammar of fundamental operations.

``grammar`` has the productions and ``terminals`` one record for each operation; ``seeds`` has known networks,
``sampling`` draws new ones, ``variation`` makes children, ``network`` builds, ``explanation`` says what was found.
"""

from eclose.spaces.einspace.grammar import Tree
from eclose.spaces.einspace.network.builder import build
from eclose.spaces.einspace.normal_form import digest
from eclose.spaces.einspace.notation import from_json, parse, text, to_json
from eclose.spaces.einspace.sampling.branching_rate import consistency
from eclose.spaces.einspace.sampling.sampler import sample
from eclose.spaces.einspace.sampling.settings import Settings
from eclose.spaces.einspace.seeds import SEEDS
from eclose.spaces.einspace.survey import cost_of
from eclose.spaces.einspace.variation import NoChild, crossover, mutate

__all__ = [
    "SEEDS",
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
