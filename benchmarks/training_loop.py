"""Steps per second of ResNet-20 on CIFAR-10: our loop against the plainest loop one can write by hand."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.runner import Entry, interleaved
from eclose.backbones import make_backbone
from eclose.config import Config, from_dict
from eclose.engine import Search, complete
from eclose.engine.strategy import plain_training
from eclose.events import Events
from eclose.spaces import spaces
from eclose.tasks import Reading, Task, data_folder, load_task, task_from_arrays
from eclose.train import Surroundings, Training, World, generator_for
from eclose.train.data import training_order
from eclose.train.device import torch_settings

BATCH = 128
RATE = 0.1
SETTINGS: dict[str, dict[str, Any]] = {
    "task": {"name": "cifar10"},
    "backbone": {"name": "resnet20"},
    "optimiser": {"name": "sgd", "weight_decay": 1e-4, "decay_vectors": True},
    "schedule": {"name": "constant"},
    "train": {"epochs": 4, "batch": BATCH, "keep": "last", "evaluate_every": 4},
    "run": {"checkpoint_seconds": 1e9},
}


def images(count: int) -> tuple[Task, str]:
    """A task of ``count`` training images and two for validation: CIFAR-10 if it is there."""
    options = {"shards": 1, "val": 2}
    section = from_dict({"task": {"name": "cifar10", "options": options, "subset": count, "subset_eval": 2}}).task
    if (data_folder() / "cifar10" / "cifar10_train1.npz").is_file():
        return load_task(section, lambda done, total: None), "CIFAR-10"
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (count + 4, 3, 32, 32), dtype=torch.uint8, generator=generator)
    y = torch.arange(count + 4) % 10
    parts = {"train": slice(0, count), "val": slice(count, count + 2), "test": slice(count + 2, None)}
    arrays = {f"{a}_{part}": v[rows] for part, rows in parts.items() for a, v in (("x", x), ("y", y))}
    return task_from_arrays("cifar10", arrays, Reading("classification", axes=2)), "random images of CIFAR-10's shape"


class Ours:
    """A training of eclose, as the command line would run it; each call is four epochs and a validation."""

    def __init__(
        self, task: Task, device: torch.device, graph: bool, deterministic: bool = True, rate: float = RATE
    ) -> None:
        given = from_dict(SETTINGS).with_values(
            {
                "run.device": device.type,
                "run.deterministic": deterministic,
                "train.precision": "tf32",  # as torch has it for the convolutions of the plain loop
                "train.graph": "on" if graph else "off",
                "optimiser.learning_rate": rate,
            }
        )
        self.config: Config = complete(given, task)
        space = spaces["backbone"].make(self.config)
        search = Search(space, task, self.config, space.start(task.signature))
        around = Surroundings(0, 0, device, World(), Events())
        torch.manual_seed(0)
        prepared = plain_training(search, search.start, around)
        self.model = prepared.model
        self.training = Training(self.model, task, prepared.step, self.config, around)

    def __call__(self) -> None:
        self.training.progress.epoch = 0
        with torch_settings(self.config.run, self.config.train.precision):
            self.training.run()


class Plain:
    """The hand-written loop: normalised float images on the device, nothing else."""

    def __init__(self, task: Task, device: torch.device, rate: float = RATE) -> None:
        torch.manual_seed(0)
        self.model = make_backbone("resnet20", task.signature, {}).to(device)
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=rate, momentum=0.9, weight_decay=1e-4)
        assert task.scale is not None
        x, y = task.train.all()
        mean, std = (part.view(1, 3, 1, 1) for part in (task.scale.x_mean, task.scale.x_std))
        self.x = ((x.float() - mean) / std).to(device)
        self.y = y.long().to(device)

    def order(self) -> Iterator[Tensor]:
        """The batches of as many epochs as ours makes."""
        for epoch in range(SETTINGS["train"]["epochs"]):
            order = torch.cat(training_order(len(self.x), BATCH, generator_for(0, "order", epoch)))
            yield from order.to(self.x.device).split(BATCH)

    def __call__(self) -> None:
        self.model.train()
        for rows in self.order():
            loss = F.cross_entropy(self.model(self.x[rows]), self.y[rows])
            self.optimiser.zero_grad()
            loss.backward()
            self.optimiser.step()


class PlainGraph(Plain):
    """The plain step captured as a CUDA graph: GPU time alone, without launches."""

    def __init__(self, task: Task, device: torch.device) -> None:
        super().__init__(task, device)
        self.rows = torch.arange(BATCH, device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._step()

    def _step(self) -> None:
        loss = F.cross_entropy(self.model(self.x[self.rows]), self.y[self.rows])
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()

    def __call__(self) -> None:
        for rows in self.order():
            self.rows.copy_(rows)
            self.graph.replay()


def check(device: torch.device) -> str:
    """All loops train the same network: the weights after eight small steps differ by rounding only."""
    task, _ = images(2 * BATCH)
    plain = Plain(task, device, rate=0.001)
    start = _vector(plain.model)
    plain()
    moved = (_vector(plain.model) - start).norm()
    differences = []
    for graph in _graphs(device):
        ours = Ours(task, device, graph, rate=0.001)
        ours()
        differences.append(float((_vector(ours.model) - _vector(plain.model)).norm() / moved))
    assert max(differences) < 0.01, f"the loops disagree by {max(differences):.2g} of the way moved"
    return f"after eight steps the weights of all loops agree to {max(differences):.1e} of the way moved"


def _graphs(device: torch.device) -> tuple[bool, ...]:
    return (False, True) if device.type == "cuda" else (False,)


def _vector(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def measure(device: torch.device) -> list[str]:
    """Rounds of some steps each, alternating."""
    batches, rounds = (78, 9) if device.type == "cuda" else (5, 7)
    task, content = images(batches * BATCH)
    steps = batches * SETTINGS["train"]["epochs"]
    variants: dict[str, Callable[[], None]] = {"plain": Plain(task, device), "eclose": Ours(task, device, False)}
    if device.type == "cuda":
        variants["eclose, run.deterministic=false"] = Ours(task, device, False, deterministic=False)
        variants["eclose, train.graph=on"] = Ours(task, device, True)
        variants["plain step as a CUDA graph"] = PlainGraph(task, device)
    seconds = interleaved(variants, device, rounds)
    ratio = seconds["eclose"] / seconds["plain"]
    return [
        f"ResNet-20, {content}, batch {BATCH}, float32, SGD with momentum; median of {rounds} rounds of {steps} steps, "
        "the two loops in turn. eclose's rounds include its own order, schedule, standardisation of raw bytes, events "
        "and one validation of two images.",
        "",
        "| loop | steps per second | time against plain |",
        "|---|---|---|",
        *(f"| {name} | {steps / value:.2f} | {value / seconds['plain']:.3f} |" for name, value in seconds.items()),
        "",
        f"Goal: at most 1.05. Measured: {ratio:.3f}.",
    ]


ENTRY = Entry("training-loop", "Our training loop against a hand-written one", check, measure)
