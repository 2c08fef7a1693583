"""The linear model of a position in a token sequence: one answer for every token, in closed form."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from eclose.engine.predictors.choice import some
from eclose.engine.predictors.features import columns_of
from eclose.tasks import Task
from eclose.tasks.scale import blocks

_TABLE = 2**22  # numbers in a table
_WEIGHTS = (0.1, 1.0, 10.0, 100.0)  # of what holds for all tokens, in occurrences


class TokenTable(nn.Module):
    """What to say where a token stands."""

    def __init__(self, column: Tensor, table: Tensor) -> None:  # (vocabulary,), (columns, outputs)
        super().__init__()
        self.column = column
        self.table = nn.Parameter(table.float(), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:  # (batch, length)
        """``(batch, outputs, length)``."""
        return self.table[self.column[x.long()]].movedim(-1, 1)


def token_tables(task: Task) -> Iterator[TokenTable]:
    """Mean of the targets, or log-frequencies of the classes, by token; rare tokens follow the average of all."""
    signature = task.signature
    column = columns_of(task, max(1, _TABLE // signature.outputs))
    totals, counts = _gathered(task, column)  # (columns, outputs), (columns,)
    average = totals.sum(0) / counts.sum()
    if signature.labels:
        average = (totals.sum(0) + 1) / (counts.sum() + signature.outputs)
    for weight in _WEIGHTS:
        table = (totals + weight * average) / (counts + weight)[:, None]
        yield TokenTable(column, table.log() if signature.labels else table)


def _gathered(task: Task, column: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of the targets (classes as zeros and a one) and numbers of occurrences, by column."""
    part, outputs, columns = some(task.train), task.signature.outputs, int(column.max()) + 1
    totals = torch.zeros(columns, outputs, dtype=torch.float64)
    counts = torch.zeros(columns, dtype=torch.float64)
    for index in blocks(part):
        x, y = part.take(index)
        where = column[x.long()].flatten()
        counts += torch.bincount(where, minlength=columns)
        if task.signature.labels:
            pairs = torch.bincount(where * outputs + y.long().flatten(), minlength=columns * outputs)
            totals += pairs.view(columns, outputs)
        else:
            totals.index_add_(0, where, y.double().movedim(1, -1).reshape(-1, outputs))
    return totals, counts
