"""The final stage (paper 003, B.1): what was chosen is trained anew on training and validation samples together."""

from dataclasses import replace

import torch

from eclose.search.selection import Selection
from eclose.search.strategy import Search
from eclose.tasks.join import join
from eclose.tasks.scale import measure_scale


def final_search(search: Search, selection: Selection | None) -> Search:
    """The surroundings of final trainings; the given ones where there is no final stage.

    There is none without test samples: nothing would be left to judge the network by. Without validation samples the
    last weights are kept.
    """
    task, train = search.task, search.config.train
    if selection is None or not selection.final or task.test is None:
        return search
    samples = join(task.train, task.val)
    scale = None if task.scale is None else measure_scale(samples, task.signature)
    task = replace(task, train=samples, val=task.val.select(torch.arange(0)), scale=scale)
    train = replace(train, epochs=selection.final_epochs or train.epochs, keep="last")
    return replace(search, task=task, config=replace(search.config, train=train))
