"""The run folder: configuration, trial table, events, atomic files."""

from eclose.runs.figures import FIGURES, OBJECTIVES, Figure
from eclose.runs.files import atomic_path, cache_folder, write_json, write_text
from eclose.runs.run import COMPARISON, RUNS, Run, check_empty, new_folder, write_configuration
from eclose.runs.table import STAGES, Trial, TrialTable, with_earlier

__all__ = [
    "COMPARISON",
    "STAGES",
    "FIGURES",
    "OBJECTIVES",
    "RUNS",
    "Figure",
    "Run",
    "Trial",
    "TrialTable",
    "atomic_path",
    "cache_folder",
    "check_empty",
    "new_folder",
    "with_earlier",
    "write_configuration",
    "write_json",
    "write_text",
]
