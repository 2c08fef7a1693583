"""Sizes that follow the time: as large as networks may be, if the minutes of a run are to be enough to train them.

A space says which of its options are sizes (``sizes_in_time``). What a step takes with them is measured before the run
begins: on its device, on its data, by the steps of its strategy. The run then holds plain options. One that goes on has
them already and measures nothing.
"""

import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from eclose.config import Config
from eclose.engine.clock import for_trainings
from eclose.engine.final import final_search
from eclose.engine.strategy import Role, Search, is_trained_anew, make_strategy, trainings_after
from eclose.engine.teaching import SHARE, is_trained_first
from eclose.errors import ConfigError, is_out_of_memory
from eclose.events import Events
from eclose.spaces import Genotype, SampledSpace, space_class
from eclose.tasks import Task
from eclose.train import Surroundings, World, choose_device, generator_for, torch_settings
from eclose.train.data import Feed
from eclose.train.device import seconds_now
from eclose.train.seeds import own_numbers

ENOUGH = 300
"""Steps that a training should have at least: fewer tell no operations apart, and hardly train most networks."""

_WARM_UP = {"cpu": 1, "cuda": 10}  # steps: a GPU tries kernels, and captures a graph in one of them
_TIMED = 2  # steps
_TELLING = {"cpu": 1, "cuda": 6}  # the first step that tells how long others take: the last of two replays of a graph
_TOO_LONG = 3  # times the seconds that a step may take: more are not worth waiting for

_TRAININGS = {"search": "the search", "final": "the training in the end"}
_TOO_LITTLE = {
    "search": "the search is too short to tell operations apart, so that what it finds is hardly better than chance",
    "final": "too few steps for a network to learn well, however small it is",
}

Sizes = Mapping[str, Any]


class Stage(NamedTuple):
    """A kind of training of a run, and how long one of them may take."""

    what: str  # whose sizes they are: "search" (of what is searched) or "final" (of what is trained in the end)
    role: Role
    share: float  # of the time for trainings
    ends: float  # when that is over

    @property
    def seconds(self) -> float:
        """Of one training, by the time that is left now: to measure takes some, too."""
        return self.share * max(0.0, self.ends - time.perf_counter())

    @property
    def allowed(self) -> float:
        """Seconds of a step."""
        return self.seconds / ENOUGH


class Measured(NamedTuple):
    """The sizes of a stage, and what a step takes with them."""

    stage: Stage
    sizes: Sizes
    step: float

    @property
    def steps(self) -> float:
        """That there is time for."""
        return self.stage.seconds / self.step


def sized(config: Config, given: Collection[str], task: Task) -> tuple[Config, list[str]]:
    """A complete configuration with sizes that suit its minutes, and what there is to say of them.

    ``given``: options of the space that its user has set. They stay.
    """
    measured: list[Measured] = []
    if config.budget.minutes and space_class(config.space.name).sizes_in_time:
        for stage in _stages(Search.of(config, task, Genotype(config.space.name, {}))):  # its start is not looked at
            open_ = {name for sizes in _ladder(config, stage) for name in sizes} - {*given}
            if open_:
                measured.append(_largest(config, task, stage, open_))
                config = config.with_values({"space.options": measured[-1].sizes})
                given = {*given, *open_}  # both stages may have an option in common
    return config, _told(measured, config.budget.minutes)


def _stages(search: Search) -> list[Stage]:
    """Those of a run, with the time that the clock will give them."""
    ends = time.perf_counter() + for_trainings(60 * search.config.budget.minutes)
    part = 1 - SHARE if is_trained_first(search.config) else 1.0
    share = make_strategy(search.config).share(search, [])
    if not is_trained_anew(search):  # networks as they are in the end are searched
        return [Stage("final", "search", part * share, ends)]
    after = (1 - share) / trainings_after(search.config)
    return [Stage("search", "search", part * share, ends), Stage("final", "final", part * after, ends)]


def _largest(config: Config, task: Task, stage: Stage, open_: Collection[str]) -> Measured:
    """The largest sizes with which a step takes no longer than it may; else the smallest.

    A CPU begins with the smallest: what is too large would take long to measure. On a GPU the size hardly matters until
    it is full, so it begins with the largest. Sizes that other options refuse are left out.
    """
    falling = choose_device(config.run.device).type == "cuda"
    ladder = _rungs(config, stage, open_)
    best: Measured | None = None
    for sizes in reversed(ladder) if falling else ladder:
        try:
            step = _step_seconds(config.with_values({"space.options": sizes}), task, stage)
        except ConfigError:
            continue
        fits = step <= stage.allowed
        best = Measured(stage, sizes, step) if best is None or fits or falling else best
        if fits == falling:
            break
    return best or Measured(stage, ladder[-1], math.inf)


def _rungs(config: Config, stage: Stage, open_: Collection[str]) -> list[Sizes]:
    """Sizes from small to large; the last are as they are without a clock."""
    ladder: list[Sizes] = []
    usual = {name: config.space.options[name] for rung in _ladder(config, stage) for name in rung}
    for rung in (*_ladder(config, stage), usual):
        sizes = {name: value for name, value in rung.items() if name in open_}
        ladder = [*(each for each in ladder if each != sizes), sizes]
    return ladder


def _ladder(config: Config, stage: Stage) -> Sequence[Sizes]:
    return space_class(config.space.name).sizes_in_time.get(stage.what, ())


def _step_seconds(config: Config, task: Task, stage: Stage) -> float:
    """What a step of the training takes on average; infinitely long where memory is too small for it."""
    search, device = Search.of(config, task), choose_device(config.run.device)
    with torch_settings(config.run, config.train.precision), own_numbers(device):
        try:
            times = list(_steps(search, stage, device))[-_TIMED:]
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return math.inf
        finally:
            if device.type == "cuda":
                torch.cuda.empty_cache()
    return sum(times) / len(times)


def _steps(search: Search, stage: Stage, device: torch.device) -> Iterator[float]:
    """Seconds of single steps; only the first ones where they take much longer than they may."""
    seed, number = search.config.run.seed, _WARM_UP[device.type] + _TIMED
    torch.manual_seed(seed)
    around = Surroundings(0, seed, device, World(), Events())
    search = final_search(search) if stage.role == "final" else search
    prepared = make_strategy(search.config).prepare(search, _usual(search, stage), around, stage.role)
    feed = Feed.of(prepared.task, prepared.config, seed, device, around.world)
    late = search.config.train.epochs - 0.5  # whatever changes in the course of a training has changed
    prepared.model.train()
    for place in range(number):
        begun = seconds_now(device)
        x, y, batch = feed.batch(place)
        prepared.step.set_rate(1.0, late)
        prepared.step(x, y, batch)
        seconds = seconds_now(device) - begun
        yield seconds
        if place + 1 >= _TELLING[device.type] and seconds > _TOO_LONG * stage.allowed:
            return


def _usual(search: Search, stage: Stage) -> Genotype:
    """A network as a search may find it: one that is drawn, as the start may be simpler than most."""
    if stage.what == "search" or not isinstance(search.space, SampledSpace):
        return search.start
    return search.space.sample(search.task.signature, generator_for(search.config.run.seed, "usual"))


def _told(measured: list[Measured], minutes: float) -> list[str]:
    """The choice and how to change it; whether it leaves the search too little time."""
    if not measured:
        return []
    parts = [
        f"{' '.join(f'space.{name}={value}' for name, value in each.sizes.items())} for about {each.steps:.0f} steps "
        f"of {_TRAININGS[each.stage.what]}"
        for each in measured
    ]
    told = [f"sizes follow from the time: {', '.join(parts)}; more --minutes allow larger ones, --set keeps yours"]
    for each in measured:
        if each.steps < ENOUGH:
            wanted = f"some {math.ceil(minutes * ENOUGH / each.steps)}" if each.steps >= 1 else "more"
            told.append(f"{_TOO_LITTLE[each.stage.what]}: give it {wanted} --minutes, or leave --space out")
    return told
