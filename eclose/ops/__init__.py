"""Operations: the fundamental building blocks. They know nothing of search."""

from eclose.ops.standardise import Numbers, Standardise, Unstandardise

__all__ = ["Numbers", "Standardise", "Unstandardise"]
