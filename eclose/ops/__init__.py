"""Operations: the fundamental building blocks. They know nothing of search."""

from eclose.ops.kaleidoscope import Kaleidoscope, KMatrix
from eclose.ops.standardise import Numbers, Standardise, Unstandardise

__all__ = ["KMatrix", "Kaleidoscope", "Numbers", "Standardise", "Unstandardise"]
