"""What a training makes small on a batch: the loss of every sample, in units in which 1 is large."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from eclose.config import LossSection
from eclose.tasks import Task
from eclose.train.losses import Loss, make_loss
from eclose.train.teacher import Lesson

_SCALED = ("mse", "mae", "huber", "relative_l2")  # losses that see the units of the target


@dataclass(frozen=True)
class Objective:
    """Loss of a model on samples."""

    loss: Loss
    spread: Tensor | None  # (1, outputs, *1) or one number: targets and predictions are divided by it
    lesson: Lesson | None = None  # of the model that is trained, where it has a teacher

    @classmethod
    def of(cls, task: Task, section: LossSection, device: torch.device, lesson: Lesson | None = None) -> "Objective":
        """The configured loss, for the scale of the task's targets."""
        spread = None
        if task.scale is not None and section.name in _SCALED:
            ones = () if task.signature.pooled else (1,) * task.signature.axes
            largest = task.scale.y_std.flatten(1).amax(1) if task.scale.pointwise else task.scale.y_std
            spread = largest.view(1, -1, *ones).to(device)
            if section.name == "relative_l2":  # a ratio over all outputs: one number for all leaves it as it is
                spread = spread.max()
        return cls(make_loss(section.name, section.options), spread, lesson)

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        """Values ``(batch,)``."""
        if self.lesson is None:
            return self.judge(model(x), y)
        prediction, apart = self.lesson(x)
        return self.judge(prediction, y) + apart

    def judge(self, prediction: Tensor, y: Tensor) -> Tensor:
        """Values ``(batch,)`` of a prediction, in units of the spread of the targets."""
        if self.spread is not None:
            prediction, y = prediction / self.spread, y / self.spread
        return self.loss(prediction, y)
