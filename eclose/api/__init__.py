"""What users call, and the command line too: begin a run, use what it found, compare runs."""

from eclose.api.comparing import Comparison, compare
from eclose.api.searching import Result, resume, retrain, search
from eclose.api.using import Predictions, describe, explain, export, load, predict, report
from eclose.spaces.architecture import architecture
from eclose.spaces.relaxing.relax import relax
from eclose.train.module_hooks import one_pass

__all__ = [
    "Comparison",
    "Predictions",
    "Result",
    "architecture",
    "compare",
    "describe",
    "explain",
    "export",
    "load",
    "one_pass",
    "predict",
    "relax",
    "report",
    "resume",
    "retrain",
    "search",
]
