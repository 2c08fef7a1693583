"""Spaces: sets of networks that a search chooses from."""

from eclose.spaces import backbone, chrysalis, discrete, dnarch, portfolio, xd  # noqa: F401  (they register their spaces)
from eclose.spaces.assembly import assemble, unit_scale
from eclose.spaces.backbone import backbone_genotype
from eclose.spaces.einspace import space as einspace_space  # noqa: F401
from eclose.spaces.genotype import Genotype
from eclose.spaces.nos import space as nos_space  # noqa: F401
from eclose.spaces.space import ContinuousSpace, SampledSpace, Space, make_space, space_class, space_of, spaces

__all__ = [
    "ContinuousSpace",
    "Genotype",
    "SampledSpace",
    "Space",
    "assemble",
    "backbone_genotype",
    "make_space",
    "space_class",
    "space_of",
    "spaces",
    "unit_scale",
]
