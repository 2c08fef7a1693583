"""Data in, network out: the sets, and the networks that a user would write by hand."""

from benchmarks.portfolio.handwritten import NETWORKS, train_handwritten
from benchmarks.portfolio.sets import load_sets

__all__ = ["NETWORKS", "load_sets", "train_handwritten"]
