"""The loop: one training from its first to its last epoch, which can stop after any step and go on later.

Whatever a step depends on is either in the checkpoint (weights, optimiser, progress) or follows from the seed
and the number of the step (order of samples, augmentation, dropout). On the CPU a training that was killed
and resumed therefore ends with the same bits as one that was not.
"""

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from eclose.config import Config
from eclose.errors import Diverged, Interrupted, RunError
from eclose.events import Events
from eclose.ops.standardise import Standardise
from eclose.tasks import Task
from eclose.tasks.splits import some
from eclose.train.average import Average
from eclose.train.checkpoint import TrainingState, load_state, save_state
from eclose.train.data import Batches, Feed
from eclose.train.device import Pace, passing_shapes
from eclose.train.evaluation import evaluate
from eclose.train.metrics import better, make_metric
from eclose.train.module_hooks import Verbs
from eclose.train.parallel import World
from eclose.train.schedules import phase_of, rate
from eclose.train.seeds import reseed
from eclose.train.step import Step
from eclose.train.teacher import Lesson

_BETWEEN = 0.02  # of the time of a training on a clock: from one look at validation samples to the next
_SET_UP = 5  # steps, of which a graph is captured in the fourth
_LONGEST = 30.0  # seconds that they are given for it
_LOOKED_AT = 256  # validation samples that show how far a teacher is
_CHECK_EVERY = 64  # steps between looks at the loss, each of which waits for the device
_GO_ON, _SAVE, _STOP, _TIME_UP = range(4)


@dataclass
class Progress:
    """How far a training has come."""

    epoch: int = 0  # whole epochs done
    step: int = 0  # steps done in the current epoch
    seconds: float = 0.0
    setting_up: float = 0.0  # of the seconds, those that a GPU took for its first steps beyond what they take later
    best_value: float = math.nan
    best_epoch: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    finished: bool = False
    reason: str = ""  # why it finished early


@dataclass(frozen=True)
class Surroundings:
    """What a training needs from the run around it."""

    number: int
    seed: int
    device: torch.device
    world: World
    events: Events
    checkpoint: Path | None = None
    stop: Callable[[], bool] = lambda: False
    hopeless: Callable[[list[dict[str, Any]]], str] = lambda history: ""  # why not to go on; empty: go on
    rate: float = 1.0  # factor of every learning rate
    limit: float = 0.0  # seconds that it may take; 0: those of the configuration


class Training:
    """One training of ``model`` on ``task`` by ``step``, as the configuration says."""

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        step: Step,
        config: Config,
        around: Surroundings,
        phases: int = 1,
        lesson: Lesson | None = None,
    ) -> None:
        self.model = model
        self.task = task
        self.step = step
        self.config = config
        self.around = around
        self.phases = phases  # equal parts, in each of which the schedule begins anew
        self.lesson = lesson
        self.metric = make_metric(config.task.metric)
        self.feed = Feed.of(task, config, around.seed, around.device, around.world)
        self.val_data = Batches(task.val, task.signature, around.device)
        self.verbs = Verbs(model)
        self.progress = Progress()
        self.best_weights: dict[str, Tensor] | None = None
        self.judging = math.inf  # seconds of the quickest pass over validation samples
        self.average = Average(model, config.train.ema) if config.train.ema else None
        self.loss_sum = torch.zeros((), dtype=torch.float64, device=around.device)
        self.pace = Pace(around.device)
        self._saved_at = self._told_at = self._clock = time.perf_counter()

    def run(self) -> Progress:
        """Train to the end (or to the limit of seconds); the model then holds the weights to keep."""
        self._restore()
        self._fit()  # all of a map anew, of which a checkpoint has a part: another machine may turn its directions
        self._clock = self._saved_at = time.perf_counter()
        epochs = self.config.train.epochs
        self.model.train()
        while self.progress.epoch < epochs and not self.progress.finished:
            self._epoch()
        if self.config.train.keep == "best" and self.best_weights is not None:
            self.model.load_state_dict(self.best_weights)
        elif self.average is not None:
            self.average.install()
        return self.progress

    @property
    def steps(self) -> int:
        """Steps of an epoch."""
        return self.feed.steps

    def _epoch(self) -> None:
        progress, steps = self.progress, self.feed.steps
        while progress.step < steps and not progress.finished:
            number = progress.epoch * steps + progress.step
            x, y, batch = self.feed.batch(number)
            self.step.set_rate(self._rate(number / steps), number / steps)
            # The same draws in every process: paths that a network samples must agree between them.
            reseed(self.around.device, self.around.seed, "step", number)
            stay = self.verbs.static_shapes and batch == self.feed.sizes[0]
            with contextlib.nullcontext() if stay else passing_shapes():
                self.loss_sum += self.step(x, y, batch)
            if self.average is not None:
                self.average.update(self._steps_of_phase(number) + 1)
            progress.step += 1
            self._after_step(steps)
        last = progress.epoch + (progress.step - 1) / steps
        self._end_epoch(sum(self.feed.sizes[: progress.step]), self._rate(last))

    def _steps_of_phase(self, number: int) -> int:
        """Steps of the present phase before this one; an average begins anew with it."""
        every = self.config.train.epochs * self.feed.steps
        before = every * phase_of(number, every, self.phases) / self.phases
        return number - math.ceil(before - 1e-6)

    def _rate(self, epochs: float) -> float:
        """By the epochs done, or by the time gone by if less of that is left."""
        section, total = self.config.schedule, self.config.train.epochs
        if self._limit:
            world, gone = self.around.world, self._gone
            gone = gone if world.size == 1 else world.tell(gone)  # one rate for all processes
            epochs = max(epochs, total * min(1.0, gone / self._limit))
        length = total / self.phases
        epochs = max(0.0, epochs - length * phase_of(epochs, total, self.phases))
        factor = rate(section.name, epochs, length, section.warmup_epochs, section.options, warmup=section.warmup)
        return self.around.rate * factor

    @property
    def _limit(self) -> float:
        return self.around.limit or self.config.budget.training_seconds

    @property
    def _gone(self) -> float:
        """Seconds that count against the limit."""
        return self.progress.seconds - self.progress.setting_up

    def _set_up(self, done: int) -> None:
        """Leave out what a GPU needs before it is quick: kernels are compiled, algorithms tried, a graph captured.

        At first that is all of the time, and after as many steps again what they took longer than these.
        """
        progress = self.progress
        if self.around.device.type != "cuda" or not self._limit or done > 2 * _SET_UP:
            return
        torch.cuda.synchronize(self.around.device)
        self._count_time()
        longer = progress.seconds if done <= _SET_UP else progress.setting_up
        if done == 2 * _SET_UP:
            longer -= progress.seconds - progress.setting_up
        progress.setting_up = min(max(0.0, longer), _LONGEST)

    def _count_time(self) -> float:
        now = time.perf_counter()
        self.progress.seconds += now - self._clock
        self._clock = now
        return now

    def _after_step(self, steps: int) -> None:
        progress = self.progress
        if self._limit:
            self.pace.handed_over()
        now = self._count_time()
        self._set_up(progress.epoch * steps + progress.step)
        if now - self._told_at > 0.1:
            self._told_at = now
            self._emit("step", epoch=progress.epoch + 1, step=progress.step, steps=steps, seconds=progress.seconds)
        if progress.step % _CHECK_EVERY == 0:
            self._check_loss(float(self.around.world.total(self.loss_sum.clone())))
        wish = self.around.world.agree(self._wish(now))
        if wish == _TIME_UP:
            progress.finished = True
        elif wish != _GO_ON:
            self.save()
            if wish == _STOP:
                raise Interrupted

    def _wish(self, now: float) -> int:
        if self.around.stop():
            return _STOP
        if self._limit and self._gone >= self._limit:
            return _TIME_UP
        due = now - self._saved_at >= self.config.run.checkpoint_seconds
        return _SAVE if due else _GO_ON

    def _end_epoch(self, samples: int, factor: float) -> None:
        progress, train = self.progress, self.config.train
        seen = samples / sum(self.feed.sizes)
        loss = float(self.around.world.total(self.loss_sum)) / samples
        self._check_loss(loss)
        self.loss_sum.zero_()
        progress.epoch += 1
        progress.step = 0
        last = progress.finished or progress.epoch == train.epochs
        entry: dict[str, Any] = {"epoch": progress.epoch, "train_loss": loss, "rate": factor, **self.verbs.measured()}
        if progress.finished and seen < 1:
            entry["seen"] = seen  # of the samples, where time was up within an epoch
        if len(self.val_data) and (last or self._due()):
            entry |= self._validate()
        self._count_time()
        entry["seconds"] = progress.seconds
        progress.history.append(entry)
        if not last and "valid" in entry:
            progress.reason = self.around.hopeless(progress.history) or self._out_of_patience()
            progress.finished = bool(progress.reason)
        self._emit("epoch", epochs=train.epochs, **entry)

    def _due(self) -> bool:
        """Whether the weights are judged after this epoch. On a clock that takes a small part of the time only."""
        if self.progress.epoch % self.config.train.evaluate_every:
            return False
        judged = [entry["seconds"] for entry in self.progress.history if "valid" in entry]
        gone = self.progress.seconds - (judged[-1] if judged else 0.0)
        return bool(self.around.world.agree(gone >= self._limit * _BETWEEN))

    def _out_of_patience(self) -> str:
        """Why a training that gets no better on validation ends; empty: it goes on."""
        patience, progress = self.config.train.patience, self.progress
        reached = (entry["epoch"] for entry in progress.history if entry.get("valid") == progress.best_value)
        first = next(reached, 0)
        if not patience or progress.epoch - first < patience:
            return ""
        return f"stopped after epoch {progress.epoch}: no better on validation since epoch {first}"

    def _validate(self) -> dict[str, float]:
        """Figures of the weights that would be kept if the training ended now."""
        with self.average.shown() if self.average is not None else contextlib.nullcontext():
            told = {"valid": self._judge()}
            if self.lesson is not None:
                told["attention"] = self._attention(self.lesson)
            return told

    def _judge(self) -> float:
        precision, begun = self.config.train.precision, time.perf_counter()
        value = evaluate(self.model, self.val_data, self.metric, self.around.world, precision)
        self.judging = min(self.judging, time.perf_counter() - begun)
        progress = self.progress
        first = self.config.train.keep == "best" and self.best_weights is None
        # Of equals the last: few validation samples are soon all right, and the rate has fallen since.
        if first or value == progress.best_value or better(self.metric.goal, value, progress.best_value):
            progress.best_value, progress.best_epoch = value, progress.epoch
            if self.config.train.keep == "best":
                self.best_weights = {k: v.detach().clone() for k, v in self.model.state_dict().items()}
        return value

    def _attention(self, lesson: Lesson) -> float:
        """How far the weights are from the attention of the teacher, on the first validation samples."""
        rows = torch.arange(min(_LOOKED_AT, len(self.val_data)))
        with passing_shapes():
            return next(lesson.distance(x) for x, _ in self.val_data.batches([rows]))

    def _check_loss(self, loss: float) -> None:
        if not math.isfinite(loss):
            own = " or strategy.learning_rate" if "learning_rate" in self.config.strategy.options else ""
            clip = "" if self.config.optimiser.clip else ", or set optimiser.clip=1.0"
            raise Diverged(
                f"the training loss became {loss} in epoch {self.progress.epoch + 1}: lower "
                f"--set optimiser.learning_rate (it is {self.config.optimiser.learning_rate:g}){own}{clip}"
            )

    def save(self) -> None:
        """Write the checkpoint: a training that goes on from it ends as this one does."""
        self._saved_at = time.perf_counter()
        self._check_loss(float(self.around.world.total(self.loss_sum)))
        if self.around.world.rank > 0:
            self.loss_sum.zero_()  # the first process carries the sum on
        elif self.around.checkpoint is not None:
            state = TrainingState(
                progress=asdict(self.progress),
                loss_sum=self.loss_sum,
                model=dict(self.model.state_dict()),
                step=self.step.state_dict(),
                best=self.best_weights,
                average=self.average.tensors if self.average is not None else None,
            )
            save_state(self.around.checkpoint, state)

    @torch.no_grad()
    def _fit(self) -> None:
        """Modules that are solved for and not trained: always anew, to the samples of this training.

        Where it goes on with the same samples they come out as they were; a final training has more.
        """
        for module in self.verbs.fitted:
            part = some(self.task.train, module.samples_to_fit())
            x, y = part.take(torch.arange(len(part)))
            scale = getattr(self.model, "output", None)  # none where values stay as they are
            x = self.model.get_submodule("input")(x.to(self.around.device))
            y = y if scale is None else Standardise.forward(scale, y.to(self.around.device))
            module.fit_to(x.cpu(), y.cpu())

    def _restore(self) -> None:
        path = self.around.checkpoint
        if path is None or not path.exists():
            return
        state = load_state(path, self.around.device)
        try:
            self.progress = Progress(**state["progress"])
            self.model.load_state_dict(state["model"])
            self.step.load_state_dict(state["step"])
            self.best_weights = state["best"]
            if self.average is not None:
                self.average.load(state["average"])
            if self.around.world.rank == 0:
                self.loss_sum.copy_(state["loss_sum"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise RunError(f"{path} is not a checkpoint of this training ({reason}): delete it and resume") from None

    def _emit(self, event: str, **fields: Any) -> None:
        self.around.events.emit(event, trial=self.around.number, **fields)
