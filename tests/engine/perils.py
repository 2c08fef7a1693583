"""A space of networks that train, or do what should not end a search; its seeds are tried in a given order."""

import os
import resource
import signal
import time
from pathlib import Path

import torch
from torch import Tensor, nn

from eclose.config import Config
from eclose.engine.executors.worker import Worker
from eclose.signature import Signature
from eclose.spaces import Genotype, SampledSpace, spaces

LIMIT = 2**34  # bytes


@spaces.register("perils")
class Perils(SampledSpace):
    """Linear networks, each with a behaviour in training."""

    name = "perils"
    strategy = "evolution"
    takes_backbone = False

    def __init__(self, config: Config, *, behaviours: tuple[str, ...] = ("plain",)) -> None:
        self.behaviours = behaviours

    def start(self, signature: Signature) -> Genotype:
        return self.seeds(signature)[0]

    def seeds(self, signature: Signature) -> list[Genotype]:
        return [Genotype("perils", {"behaviour": name, "place": n}) for n, name in enumerate(self.behaviours)]

    def build(self, genotype: Genotype, signature: Signature) -> nn.Module:
        inputs = signature.channels * signature.sizes[0] * signature.sizes[1]
        return nn.Sequential(nn.Flatten(), nn.Linear(inputs, signature.outputs), Behaves(genotype.choices["behaviour"]))

    def sample(self, signature: Signature, generator: torch.Generator) -> Genotype:
        raise AssertionError("there are seeds, and children of theirs")

    def mutate(self, parent: Genotype, signature: Signature, generator: torch.Generator) -> Genotype:
        return Genotype("perils", {**parent.choices, "place": int(torch.randint(2**31, (), generator=generator))})

    crossover = sample


class Behaves(nn.Module):
    """The identity, with a behaviour in training."""

    def __init__(self, behaviour: str) -> None:
        super().__init__()
        self.behaviour = behaviour

    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.behaviour == "slow":
            time.sleep(0.01)
        elif self.training and self.behaviour.startswith("until "):
            _wait_for(Path(self.behaviour.removeprefix("until ")))
        elif self.training and self.behaviour == "raises":
            raise RuntimeError("no such network")
        elif self.training and self.behaviour == "needs memory":
            torch.empty(2**52)
        elif self.training and self.behaviour == "exceeds a limit":
            resource.setrlimit(resource.RLIMIT_AS, (LIMIT, resource.RLIM_INFINITY))
            try:
                torch.zeros(LIMIT)
            finally:
                resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        elif self.training and self.behaviour == "has a fault":
            raise KeyError("channels")
        elif self.training and self.behaviour == "breaks the GPU":
            return x + nn.functional.embedding(torch.tensor([10**6], device=x.device), torch.zeros(1, 1).to(x))
        elif self.training and self.behaviour == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.training and self.behaviour == "hangs":
            time.sleep(1000)
        return x


def _wait_for(path: Path) -> None:
    """For a minute at most."""
    end = time.monotonic() + 60
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.01)


def stillborn(folder: Path, deaths: int) -> type[Worker]:
    """Workers of which the first ones die before they have read the data, counted by files in ``folder``."""

    class Stillborn(Worker):
        def prepare(self) -> None:
            if len(list(folder.iterdir())) < deaths:
                (folder / str(os.getpid())).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            super().prepare()

    return Stillborn
