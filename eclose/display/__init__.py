"""What a person sees of a run: the page, tables and progress on the terminal, TensorBoard files, a study
for Optuna's dashboard."""

from eclose.display.dashboards.study import study_listener, write_study
from eclose.display.dashboards.tensorboard import tensorboard_listener
from eclose.display.page import write_page

__all__ = ["study_listener", "tensorboard_listener", "write_page", "write_study"]
