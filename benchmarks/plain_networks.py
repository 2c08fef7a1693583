"""Steps of plain networks: trainings as ``eclose search`` runs them against the fastest loop written by hand."""

import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.runner import Entry, by_round
from eclose.backbones import backbones, make_backbone
from eclose.config import Config, RunSection, from_dict
from eclose.engine import Search, complete
from eclose.engine.strategy import plain_training
from eclose.events import Events
from eclose.signature import Signature
from eclose.tasks import Reading, Task, task_from_arrays
from eclose.train import Surroundings, Training, World, generator_for
from eclose.train.data import training_order
from eclose.train.device import torch_settings

RATE, DECAY, CLIP = 1e-3, 0.01, 1.0
GOAL = 1.05
FAST = {"cpu": "float32", "cuda": "tf32"}  # what trainings have by default


@dataclass(frozen=True)
class Case:
    """A network with data of a usual shape; ``small``: for a CPU, where only the way there is tried."""

    network: str
    sizes: tuple[int, ...]
    channels: int
    batch: int
    options: dict[str, Any]
    small: dict[str, Any]
    dense: bool = False

    def on(self, device: torch.device) -> "Case":
        """This case, or the small one."""
        if device.type == "cuda":
            return self
        sizes = tuple(min(size, 16) for size in self.sizes)
        return Case(self.network, sizes, self.channels, 8, {**self.options, **self.small}, {}, self.dense)

    @property
    def title(self) -> str:
        """In words."""
        return f"{self.network}, {' x '.join(map(str, self.sizes))}, batch {self.batch}"


CASES = (
    Case("resnet", (96,), 1, 128, {}, {"width": 4}),
    Case("inception", (96,), 1, 128, {}, {"width": 4}),
    Case("unet", (64, 64), 1, 32, {}, {"width": 4}, dense=True),
    Case("wrn40-4", (32, 32), 3, 128, {}, {}),
)


def cases(device: torch.device) -> list[Case]:
    """Those whose networks there are."""
    return [case.on(device) for case in CASES if case.network in backbones]


def task_of(case: Case, batches: int) -> Task:
    """Random samples of the case's shape, and two for validation."""
    count = batches * case.batch
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(count + 4, case.channels, *case.sizes, generator=generator)
    y = torch.randn(count + 4, 1, *case.sizes, generator=generator) if case.dense else torch.arange(count + 4) % 10
    parts = {"train": slice(0, count), "val": slice(count, count + 2), "test": slice(count + 2, None)}
    arrays = {f"{name}_{part}": v[rows] for part, rows in parts.items() for name, v in (("x", x), ("y", y))}
    kind = "dense" if case.dense else "classification"
    return task_from_arrays("random", arrays, Reading(kind, axes=len(case.sizes), channels="first"))


class Ours:
    """A training of eclose as the command line runs it; each call is all epochs and a validation of two samples."""

    def __init__(self, case: Case, task: Task, device: torch.device, epochs: int, **settings: Any) -> None:
        given = {
            "backbone": {"name": case.network, "options": case.options},
            "loss": {"name": "mse" if case.dense else "cross_entropy"},
            "optimiser": {"name": "adamw", "learning_rate": RATE, "weight_decay": DECAY, "clip": CLIP},
            "schedule": {"name": "cosine"},
            "train": {"epochs": epochs, "batch": case.batch, "keep": "last", "evaluate_every": epochs},
            "run": {"device": device.type, "checkpoint_seconds": 1e9},
        }
        self.config: Config = complete(from_dict(given).with_values(settings), task)
        around = Surroundings(0, 0, device, World(), Events())
        search = Search.of(self.config, task)
        torch.manual_seed(0)
        with self._settings():
            prepared = plain_training(search, search.start, around)
            self.model = prepared.model
            self.training = Training(self.model, task, prepared.step, self.config, around)

    def _settings(self) -> Any:
        return torch_settings(self.config.run, self.config.train.precision)

    def __call__(self) -> None:
        self.training.progress.epoch = 0
        with self._settings():
            self.training.run()


class Plain:
    """The loop by hand: standardised data on the device, fused AdamW, on a GPU one CUDA graph with all of a step."""

    def __init__(
        self,
        case: Case,
        task: Task,
        device: torch.device,
        epochs: int,
        precision: str,
        channels_last: bool = False,
        deterministic: bool = False,
    ) -> None:
        torch.manual_seed(0)
        self.run = RunSection(device=device.type, deterministic=deterministic)
        self.case, self.epochs, self.device, self.precision = case, epochs, device, precision
        signature = Signature(
            "dense" if case.dense else "classification", case.channels, case.sizes, 1 if case.dense else 10
        )
        self.model = make_backbone(case.network, signature, case.options).to(device)
        assert task.scale is not None
        x, y = task.train.all()
        shape = (1, -1, *[1] * len(case.sizes))
        self.x = ((x.float() - task.scale.x_mean.view(shape)) / task.scale.x_std.view(shape)).to(device)
        mean, std = task.scale.y_mean, task.scale.y_std
        self.y = ((y.float() - mean.view(shape)) / std.view(shape) if case.dense else y.long()).to(device)
        if channels_last:
            self.model, self.x = (part.to(memory_format=torch.channels_last) for part in (self.model, self.x))
        self.parameters = list(self.model.parameters())
        self.rate = torch.tensor(RATE, device=device)
        groups = [
            {"params": [p for p in self.parameters if p.ndim > 1], "weight_decay": DECAY},
            {"params": [p for p in self.parameters if p.ndim <= 1], "weight_decay": 0.0},
        ]
        self.optimiser = torch.optim.AdamW(groups, lr=self.rate, fused=True, capturable=device.type == "cuda")
        self.rows = torch.arange(case.batch, device=device)
        self.graph: torch.cuda.CUDAGraph | None = None

    def _step(self) -> None:
        dtype = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(self.precision)
        with torch.autocast(self.device.type, dtype, enabled=dtype is not None):
            output, y = self.model(self.x[self.rows]), self.y[self.rows]
            loss = F.mse_loss(output.float(), y) if self.case.dense else F.cross_entropy(output.float(), y)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, CLIP)
        self.optimiser.step()

    def _capture(self) -> None:
        """After three real steps, as ours does."""
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._step()

    def _batches(self) -> Iterator[tuple[int, Tensor]]:
        number = 0
        for epoch in range(self.epochs):
            order = torch.cat(training_order(len(self.x), self.case.batch, generator_for(0, "order", epoch)))
            for rows in order.to(self.device).split(self.case.batch):
                yield number, rows
                number += 1

    def __call__(self) -> None:
        with self._settings():
            self._train()

    def _settings(self) -> Any:
        return torch_settings(self.run, "float32" if self.precision == "float32" else "tf32")

    def _train(self) -> None:
        self.model.train()
        total = self.epochs * len(self.x) // self.case.batch
        side = torch.cuda.Stream() if self.device.type == "cuda" else None
        for number, rows in self._batches():
            self.rate.fill_(RATE * (1 + math.cos(math.pi * number / total)) / 2)
            self.rows.copy_(rows)
            if self.graph is not None:
                self.graph.replay()
            elif side is None:
                self._step()
            elif number < 3:
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    self._step()
                torch.cuda.current_stream().wait_stream(side)
            else:
                self._capture()
                assert self.graph is not None
                self.graph.replay()


def check(device: torch.device) -> str:
    """Both loops train the same network: weights after eight steps differ by rounding only."""
    worst = 0.0
    for case in cases(device):
        task = task_of(case, batches=4)
        plain = Plain(case, task, device, 2, "float32", deterministic=True)
        start = _vector(plain.model)
        plain()
        ours = Ours(case, task, device, 2, **{"train.precision": "float32", "run.deterministic": True})
        ours()
        moved = _vector(plain.model) - start
        difference = float((_vector(ours.model) - _vector(plain.model)).norm() / moved.norm())
        assert difference < 0.3, f"{case.network}: the loops disagree by {difference:.2g} of the way moved"
        worst = max(worst, difference)
    return f"after eight steps the weights of both loops agree to {worst:.1e} of the way moved"


def _vector(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def measure(device: torch.device) -> tuple[list[str], dict[str, Any]]:
    """Rounds of some epochs, all loops in turn; the ratio is ours against the fastest plain one of equal precision."""
    lines = [
        "Loops in turn, median of rounds; AdamW, gradients clipped, cosine schedule. Those of eclose include its "
        "order, standardisation, events and a validation of two samples. First round: with all that is set up, tried "
        "out and captured.",
    ]
    figures: dict[str, Any] = {}
    for case in cases(device):
        figures[case.network] = _figures(case, device)
        lines += _table(case, figures[case.network], device)
    worst = max(found["ratio"] for found in figures.values())
    return [*lines, "", f"Goal: at most {GOAL}. Measured: at most {worst:.3f}."], figures


def _figures(case: Case, device: torch.device) -> dict[str, Any]:
    batches, epochs, rounds = (20, 10, 5) if device.type == "cuda" else (2, 1, 1)
    task = task_of(case, batches)
    makers = _loops(case, task, device, epochs)
    first, loops = {}, {}
    for name, make in makers.items():
        begun = time.perf_counter()
        loops[name] = make()
        loops[name]()
        if device.type == "cuda":
            torch.cuda.synchronize()
        first[name] = time.perf_counter() - begun
    times = by_round(loops, device, rounds, warm_up=1)
    steps = batches * epochs
    step = {name: statistics.median(values) / steps for name, values in times.items()}
    fastest = {
        precision: min((name for name in step if name.startswith("plain") and precision in name), key=step.__getitem__)
        for precision in _precisions(device)
    }
    ratios = {
        precision: statistics.median(
            one / other for one, other in zip(times[f"eclose, {precision}"], times[plain], strict=True)
        )
        for precision, plain in fastest.items()
    }
    return {
        "title": case.title,
        "seconds_a_step": step,
        "seconds_of_the_first_round": first,
        "fastest_plain": fastest,
        "ratios": ratios,
        "ratio": ratios[FAST[device.type]],
    }


def _precisions(device: torch.device) -> tuple[str, ...]:
    return ("tf32", "bfloat16") if device.type == "cuda" else ("float32",)


def _loops(case: Case, task: Task, device: torch.device, epochs: int) -> dict[str, Callable[[], Callable[[], None]]]:
    made: dict[str, Callable[[], Callable[[], None]]] = {}
    for precision in _precisions(device):
        layouts = (False, True) if len(case.sizes) == 2 and device.type == "cuda" else (False,)
        for last in layouts:
            name = f"plain, {precision}{', channels last' if last else ''}"
            made[name] = lambda precision=precision, last=last: Plain(case, task, device, epochs, precision, last)  # type: ignore[misc]
        settings = {"train.precision": precision}
        made[f"eclose, {precision}"] = lambda settings=settings: Ours(case, task, device, epochs, **settings)  # type: ignore[misc]
    return made


def _table(case: Case, figures: dict[str, Any], device: torch.device) -> list[str]:
    step, first, fastest = (figures[key] for key in ("seconds_a_step", "seconds_of_the_first_round", "fastest_plain"))
    lines = ["", f"## {case.title}", "", "| loop | ms a step | against the fastest plain one | s, first round |"]
    lines.append("|---|---|---|---|")
    for name, seconds in step.items():
        plain = next(fastest[precision] for precision in fastest if precision in name)
        ratio = figures["ratios"][name.split(", ")[1]] if name.startswith("eclose") else seconds / step[plain]
        lines.append(f"| {name} | {1000 * seconds:.3f} | {ratio:.3f} | {first[name]:.1f} |")
    return lines


ENTRY = Entry("plain-networks", "Plain networks: our training against the fastest loop by hand", check, measure)
