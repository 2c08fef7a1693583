"""What a person sees of a run: the page, tables and progress on the terminal, TensorBoard files, a study
for Optuna's dashboard."""

from eclose.report.page import write_page
from eclose.report.study import study_listener, write_study
from eclose.report.tensorboard import tensorboard_listener

__all__ = ["study_listener", "tensorboard_listener", "write_page", "write_study"]
