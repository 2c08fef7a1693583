"""Tasks: data with splits, signature and scale. A user's file, physics, images, and games with them."""

from eclose.tasks import (  # noqa: F401  (they register their tasks)
    cifartile,
    digit_arithmetic,
    gutenberg,
    images,
    language,
    physics,
)
from eclose.tasks.arrays import Reading, input_tensor, task_from_arrays
from eclose.tasks.files import read_arrays
from eclose.tasks.fingerprint import fingerprint
from eclose.tasks.folders import cache_folder, data_folder
from eclose.tasks.load import Data, complete_task, load_task
from eclose.tasks.source import tasks
from eclose.tasks.task import Scale, Split, Task

__all__ = [
    "Data",
    "Reading",
    "Scale",
    "Split",
    "Task",
    "cache_folder",
    "complete_task",
    "data_folder",
    "fingerprint",
    "input_tensor",
    "load_task",
    "read_arrays",
    "task_from_arrays",
    "tasks",
]
