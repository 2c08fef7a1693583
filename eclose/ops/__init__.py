"""Operations: the fundamental building blocks. They know nothing of search."""

from eclose.ops.kaleidoscope import Kaleidoscope, KMatrix
from eclose.ops.mixture import Mixture
from eclose.ops.standardise import Numbers, Standardise, Unstandardise
from eclose.ops.xd import XD

__all__ = ["XD", "KMatrix", "Kaleidoscope", "Mixture", "Numbers", "Standardise", "Unstandardise"]
