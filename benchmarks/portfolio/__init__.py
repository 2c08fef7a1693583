"""Data in, network out: the sets, and the networks that a user would write by hand."""

from benchmarks.portfolio.handwritten import CLASSIFYING, DENSE, networks_for, train_handwritten
from benchmarks.portfolio.sets import PHYSICS, load_sets

__all__ = ["CLASSIFYING", "DENSE", "PHYSICS", "load_sets", "networks_for", "train_handwritten"]
