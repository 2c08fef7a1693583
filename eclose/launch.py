"""What surrounds the search of a run: signals, progress, other processes, its folder, its page."""

import contextlib
import dataclasses
import json
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from eclose.backbones.consent import consent_now, consenting
from eclose.config import Config
from eclose.display import study_listener, tensorboard_listener, write_page
from eclose.display.terminal.progress import progress_listener
from eclose.engine import Driver, Search, Strategy, carried_over, check_networks, complete, make_strategy, sized
from eclose.engine.teaching import check_same_teacher, remember_teacher
from eclose.errors import EcloseError, Interrupted, RunError
from eclose.events import Events, Listener
from eclose.runs import COMPARISON, RUNS, Run, check_empty, new_folder, write_json
from eclose.runs.settings import check_same_settings, write_settings
from eclose.signature import Signature
from eclose.spaces import Genotype
from eclose.tasks import Data, Task, account, complete_task, fingerprint, load_task
from eclose.tasks.same_data import check_same_data
from eclose.train import World, few_threads, join_world

Ended = tuple[Path, dict[str, Any]]  # the folder of the run and the content of its result.json


def start_run(
    config: Config,
    out: str | Path,
    listeners: Sequence[Listener],
    progress: bool,
    data: Data | None,
    start: Genotype | None,
    before: Signature | None = None,
) -> Ended:
    """Check everything, then make the run folder, then go. ``before``: the data on which ``start`` was found."""
    path = Path(out) if out else None
    if path is not None:
        check_empty(path)
    with few_threads(config.run), attended(listeners, progress) as (stop, world, listeners):
        config = dataclasses.replace(config, task=complete_task(config.task))
        task, begun = _load(config, listeners, data, stop, world), time.perf_counter()
        search, told = _checked(config, task, world, start, before)
        strategy, folder = make_strategy(search.config), None
        if world.rank == 0:
            folder = path or new_folder(RUNS, slug(task.name))
            _create(folder, search, told, listeners)
        run = Run(world.tell(folder), search.config)
        with _resumable(run, data):
            return _go(run, search, strategy, listeners, stop, world, begun)


def prepare_runs(
    configs: Mapping[str, Config], out: str | Path, listeners: Sequence[Listener], progress: bool, data: Data | None
) -> Path:
    """A folder with the runs of some searches of the same data, by name; all are checked before the first is made."""
    folder = Path(out) if out else None
    if folder is not None:
        check_empty(folder)
    first = next(iter(configs.values()))
    with few_threads(first.run), attended(listeners, progress) as (stop, world, listeners):
        task_section = complete_task(first.task)
        task = _load(dataclasses.replace(first, task=task_section), listeners, data, stop, world)
        searches = {}
        for name, config in configs.items():
            searches[name] = _checked(dataclasses.replace(config, task=task_section), task, world)
            make_strategy(searches[name][0].config)
            if stop():
                raise Interrupted("stopped before the first search began")
        folder = folder or new_folder(RUNS, f"{slug(task.name)}-compared")
        for name, (search, told) in searches.items():
            _create(folder / name, search, told, listeners)
        write_json(folder / COMPARISON, {"runs": list(searches)})  # last: what it names is there
    return folder


def _checked(
    config: Config, task: Task, world: World, start: Genotype | None = None, before: Signature | None = None
) -> tuple[Search, list[str]]:
    """What is to be done, once it is known to be possible, and what there is to say of it."""
    if start is not None and before is not None:
        return carried_over(config, task, start, before), []
    whole, told = complete(config, task, given=start is not None), list[str]()
    if start is None:
        # The first process measures for all, which must have networks of one size.
        whole, told = world.tell(sized(whole, config.space.options, task) if world.rank == 0 else None)
    search = Search.of(whole, task, start)
    check_networks(search)
    return search, told


def _create(folder: Path, search: Search, told: Sequence[str], listeners: Sequence[Listener]) -> None:
    """The folder of a run that is about to begin."""
    run = Run.create(folder, search.config, consent_now().called)
    write_settings(run)
    remember_teacher(run)
    write_json(folder / "data.json", fingerprint(search.task))
    if search.given:
        search.start.save(folder, "start")
    for text in told:
        Events([run.log, *listeners]).emit("notice", text=text)


def continue_run(run: Run, listeners: Sequence[Listener], progress: bool, data: Data | None) -> Ended:
    """Take a run that was interrupted to its end."""
    attending = attended(listeners, progress)
    with few_threads(run.config.run), attending as (stop, world, listeners), _resumable(run, data):
        if data is None:
            check_data(run.config, run.path, "hand it in again, from Python as data=...")
        task, begun = _load(run.config, listeners, data, stop, world), time.perf_counter()
        start = Genotype.load(run.path, "start") if (run.path / "start.json").exists() else None
        complete(run.config, task, given=start is not None)  # somebody may have edited the file
        check_same_settings(run)
        check_same_data(run, task)
        check_same_teacher(run)
        search, strategy = Search.of(run.config, task, start), make_strategy(run.config)
        return _go(run, search, strategy, listeners, stop, world, begun)


def _go(
    run: Run,
    search: Search,
    strategy: Strategy,
    listeners: Sequence[Listener],
    stop: Callable[[], bool],
    world: World,
    begun: float,
) -> Ended:
    events = Events()
    with run.locked() if world.rank == 0 else contextlib.nullcontext():
        if world.rank == 0:
            events.listeners.extend([run.log, *listeners])
            run.log("data", account(search.task))
            if run.config.run.tensorboard:
                events.listeners.append(tensorboard_listener(run.path / "tensorboard"))
            if run.config.run.dashboard:
                events.listeners.append(study_listener(run, events))
        metrics = Driver(run, search, strategy, world, events, stop, begun).go()
        if world.rank == 0:
            write_page(run)
    return run.path, metrics


def _load(
    config: Config,
    listeners: Sequence[Listener],
    data: Data | None,
    stop: Callable[[], bool],
    world: World,
) -> Task:
    events = Events(list(listeners) if world.rank == 0 else [])

    def progress(done: int, total: int) -> None:
        events.emit("prepare", what=config.task.name, done=done, total=total)
        if stop():
            raise Interrupted("stopped before the run began")

    task: Task | None = None
    for rank in range(world.size):  # one after the other: the first fills the cache, the others read it
        failure: EcloseError | None = None
        if rank == world.rank:
            try:
                task = load_task(config.task, progress, data)
            except EcloseError as error:
                failure = error
        for found in world.gather(failure):
            if found is not None:
                raise found
    assert task is not None
    events.emit("data", **account(task))
    return task


@contextlib.contextmanager
def attended(
    listeners: Sequence[Listener], progress: bool
) -> Iterator[tuple[Callable[[], bool], World, list[Listener]]]:
    """While a run is under way: whether the user asked to stop, the other processes, who listens."""
    with stoppable() as stop:
        world = join_world()
        shown_here = progress_listener() if progress and world.rank == 0 else contextlib.nullcontext()
        with _agreed_by_all(world), shown_here as shown:
            yield stop, world, [*listeners, *([shown] if shown else [])]


@contextlib.contextmanager
def _resumable(run: Run, data: Data | None) -> Iterator[None]:
    """An interruption says how to go on, with what was handed in as an object."""
    try:
        yield
    except KeyboardInterrupt:
        given = ["data=..."] if data is not None else []
        given += ["backbone=..."] if run.config.backbone.name.startswith("python:") else []
        call = ", ".join([json.dumps(str(run.path), ensure_ascii=False), *given])
        raise Interrupted(f"stopped; go on with: eclose.resume({call})") from None


class _Asked:
    """Whether somebody asked to stop: the first signal asks, the second one stops at once."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, number: int, frame: Any) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def said(self) -> bool:
        return self.asked


@contextlib.contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Ctrl-C (or SIGTERM) asks to stop after the step under way; within another such block both are told."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    if isinstance(handler, _Asked):
        yield handler.said
        return
    asked = _Asked()
    before = {number: signal.signal(number, asked) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.said
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _agreed_by_all(world: World) -> Iterator[None]:
    """The first process may remember what the others, on other machines, do not know of."""
    consent = consent_now()
    with consenting(dataclasses.replace(consent, code=world.tell(dict(consent.code)))):
        yield


def check_data(config: Config, path: Path, way_out: str) -> None:
    """Refuse a run whose data nobody has."""
    if not (config.task.data or config.task.name):
        raise RunError(f"{path} does not say where its data is, which was an object or is not there: {way_out}")


def slug(name: str) -> str:
    """A name as part of a folder's name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "run"
