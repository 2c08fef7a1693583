"""Tasks: data with splits, signature and scale. A user's file, physics, images, and games with them."""

from eclose.tasks.load import Data, complete_task, load_task
from eclose.tasks.own_data.arrays import input_tensor, target_tensor, task_from_arrays
from eclose.tasks.own_data.files import read_arrays
from eclose.tasks.own_data.reading import Reading
from eclose.tasks.own_data.table import answers, features, is_table, read_table
from eclose.tasks.physics import generated  # noqa: F401  (they register their tasks)
from eclose.tasks.published import (  # noqa: F401
    cifartile,
    citations,
    cosmic,
    digit_arithmetic,
    imagenet,
    images,
    imdb,
    sentences,
    spherical,
    words,
)
from eclose.tasks.puzzles import listops, pathfinder  # noqa: F401
from eclose.tasks.same_data import fingerprint
from eclose.tasks.source import data_folder, tasks
from eclose.tasks.summary import account
from eclose.tasks.task import Layout, Scale, Split, Task

__all__ = [
    "Data",
    "Layout",
    "Reading",
    "Scale",
    "Split",
    "Task",
    "account",
    "answers",
    "complete_task",
    "data_folder",
    "features",
    "fingerprint",
    "input_tensor",
    "is_table",
    "load_task",
    "read_arrays",
    "read_table",
    "target_tensor",
    "task_from_arrays",
    "tasks",
]
