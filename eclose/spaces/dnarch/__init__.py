"""DNArch (Romero and Zeghidour 2023): sizes of a network, learned with its weights, within a budget that is met."""

from eclose.spaces.dnarch.space import DNArchSpace

__all__ = ["DNArchSpace"]
