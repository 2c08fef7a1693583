"""Operations: the fundamental building blocks. They know nothing of search."""

from eclose.ops.standardise import Standardise, Unstandardise

__all__ = ["Standardise", "Unstandardise"]
