"""What a person sees of a run: the page, tables and progress on the terminal, TensorBoard files."""

from eclose.report.page import write_page
from eclose.report.tensorboard import tensorboard_listener

__all__ = ["tensorboard_listener", "write_page"]
