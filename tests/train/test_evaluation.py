"""What counts as a constant answer, and where a constant is right."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from eclose.tasks import Reading, Task, task_from_arrays
from eclose.train.evaluation import is_constant

CPU = torch.device("cpu")


class Answers(nn.Module):
    """Gives what a function makes of its input."""

    def __init__(self, answer: object) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, x: Tensor) -> Tensor:
        return self.answer(x)  # type: ignore[operator, no-any-return]


def task(y: np.ndarray) -> Task:
    x = np.random.default_rng(0).normal(size=(len(y), 1, 6)).astype(np.float32)
    return task_from_arrays("toy", {"x_train": x, "y_train": y, "x_val": x, "y_val": y}, Reading())


NOISE = np.random.default_rng(1).normal(size=(40, 2)).astype(np.float32)
FIELDS = np.random.default_rng(2).normal(size=(40, 1, 6)).astype(np.float32)
LABELS = np.arange(40) % 3
MASKS = np.random.default_rng(3).integers(0, 3, (40, 6))


@pytest.mark.parametrize(
    ("y", "answer", "constant"),
    [
        (NOISE, lambda x: torch.full((len(x), 2), 0.3), True),
        (NOISE, lambda x: 1e-3 * x[:, 0, :2], True),
        (NOISE, lambda x: 0.1 * x[:, 0, :2], False),
        (NOISE, lambda x: torch.stack([x[:, 0, 0], torch.zeros(len(x))], 1), False),
        (NOISE, lambda x: torch.full((len(x), 2), torch.nan), False),
        (np.ones_like(NOISE), lambda x: torch.ones(len(x), 2), False),
        (NOISE * [1, 0], lambda x: torch.zeros(len(x), 2), True),
        (NOISE * [1000, 1], lambda x: torch.stack([torch.zeros(len(x)), x[:, 0, 0]], 1), False),
        (FIELDS, lambda x: torch.linspace(0, 1, 6).expand(len(x), 1, 6), True),
        (FIELDS, lambda x: x, False),
        (LABELS, lambda x: torch.tensor([0.0, 2.0, 1.0]).expand(len(x), 3), True),
        (LABELS, lambda x: torch.tensor([0.0, 9.0, 0.0]) + 3 * x[:, 0, :3], False),
        (LABELS, lambda x: 1e-3 * x[:, 0, :3], False),
        (MASKS, lambda x: torch.randn(3, 6, generator=torch.Generator().manual_seed(0)).expand(len(x), 3, 6), True),
        (MASKS, lambda x: torch.cat([x, -x, 0 * x], 1), False),
    ],
)
def test_compared_with_what_the_targets_do(y: np.ndarray, answer: object, constant: bool) -> None:
    model = Answers(answer).train()
    assert is_constant(model, task(y), CPU) is constant
    assert model.training


def test_where_all_samples_are_of_one_class_it_is_the_right_answer() -> None:
    given = task(LABELS)
    alike = given.with_splits({"train": given.train, "val": given.val.select(torch.arange(0, 40, 3))})
    assert not is_constant(Answers(lambda x: torch.tensor([9.0, 0.0, 0.0]).expand(len(x), 3)), alike, CPU)


def test_a_single_sample_says_nothing() -> None:
    assert not is_constant(Answers(lambda x: torch.zeros(len(x), 2)), task(NOISE[:1]), CPU)


def test_training_samples_are_asked_where_none_are_for_validation() -> None:
    given = task(NOISE)
    empty = given.with_splits({"train": given.train, "val": given.val.select(torch.arange(0))})
    assert is_constant(Answers(lambda x: torch.zeros(len(x), 2)), empty, CPU)
