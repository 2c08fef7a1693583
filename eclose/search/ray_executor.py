"""Executor ``ray`` (extra ``ray``): workers in processes of their own, on this machine or on those of a cluster.

A worker is a long-lived Ray actor. One that dies loses only its trial, and the next trial gets a new one. Workers die
with the driver; a run that lost its driver is resumed, and its trials go on from their checkpoints.
"""

import contextlib
import logging
import math
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from eclose.config import RunSection
from eclose.errors import ConfigError, EcloseError, Interrupted
from eclose.runs import Trial
from eclose.search.runner import OUT_OF_MEMORY, TrialRunner
from eclose.search.worker import Worker, orders_for
from eclose.spaces import Genotype

GRACE = 60.0  # seconds, for what --seconds does not count: building, the last evaluation, saving
_POLL = 0.2  # seconds between looks at the clock and at Ctrl-C
_STORE = 100 * 2**20  # bytes of shared memory beside the data


def import_ray() -> Any:
    """The module ``ray``, told to be quiet; the error names the extra."""
    # Ray reads these once. Dead workers are told by their trials.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "A worker died or was killed")
    try:
        import ray
    except ImportError:
        raise ConfigError("--workers needs Ray: pip install 'eclose[ray]', or leave it out") from None
    return ray


@dataclass(frozen=True)
class _Staff:
    worker: Any  # an actor
    ready: Any  # a reference that is there once it has read the data


@dataclass
class _Job:
    trial: Trial
    staff: _Staff
    begun: float | None = None  # None: not ready when last looked at


class RayExecutor:
    """As many trials at a time as there are workers."""

    def __init__(self, runner: TrialRunner) -> None:
        self.ray = import_ray()
        self.runner = runner
        self.config = runner.search.config
        self.workers = self.config.run.workers
        self.idle: list[_Staff] = []
        self.jobs: dict[Any, _Job] = {}  # by the reference to their outcome
        self.stopping = False
        threads = max(1, self.config.run.threads // self.workers)
        self.began_ray = self._connect(threads)
        share = {"num_cpus": threads, "num_gpus": self._gpu_share(), "max_restarts": 0, "max_concurrency": 2}
        self.actor = self.ray.remote(Worker).options(**share)
        self.orders = self.ray.put(orders_for(runner, threads))

    def start(self, trial: Trial, genotype: Genotype) -> None:
        """See :class:`Executor`."""
        if self.runner.stop():
            return  # `wait` says so once the others have stopped
        staff = self.idle.pop() if self.idle else self._hire()
        self.jobs[staff.worker.train.remote(trial, genotype)] = _Job(trial, staff)

    def wait(self) -> Trial:
        """See :class:`Executor`. Before it raises ``Interrupted`` it gives the rows of trials that ended meanwhile."""
        while True:
            if self.runner.stop() and not self.stopping:
                self.stopping = True
                for job in self.jobs.values():
                    job.staff.worker.stop.remote()
            if self.stopping and not self.jobs:
                raise Interrupted
            ended, _ = self.ray.wait(list(self.jobs), timeout=_POLL)
            row = self._row(ended[0]) if ended else self._overdue()
            if row is not None:
                return row

    def close(self) -> None:
        """See :class:`Executor`."""
        for staff in [*self.idle, *(job.staff for job in self.jobs.values())]:
            self.ray.kill(staff.worker)
        if self.began_ray:
            self.ray.shutdown()

    def _row(self, outcome: Any) -> Trial | None:
        job, errors = self.jobs.pop(outcome), self.ray.exceptions
        try:
            row, told = self.ray.get(outcome)
        except errors.RayTaskError as error:
            raise error.cause from None  # what a training in this process would have raised
        except (errors.RayActorError, errors.OutOfMemoryError, errors.NodeDiedError) as error:
            return self._lost(job, self._death(error))
        for event, fields in told:
            self.runner.events.emit(event, **fields)
        self.idle.append(job.staff)
        return row

    def _hire(self) -> _Staff:
        worker = self.actor.remote(self.orders)
        return _Staff(worker, worker.prepare.remote())

    def _death(self, error: Any) -> str:
        if getattr(error, "actor_init_failed", False):
            reason = str(error).strip().splitlines()[-1]
            raise EcloseError(f"a worker cannot start ({reason}): install the same eclose on every machine")
        if isinstance(error, self.ray.exceptions.OutOfMemoryError):
            return OUT_OF_MEMORY
        return "its worker process died: killed, crashed, or out of memory"

    def _overdue(self) -> Trial | None:
        """A trial that does not come to its end, with its worker ended."""
        seconds, now = self.config.budget.seconds, time.monotonic()
        limit = 2 * seconds + GRACE if seconds else math.inf
        for outcome, job in self.jobs.items():
            if job.begun is None and self.ray.wait([job.staff.ready], timeout=0)[0]:
                job.begun = now
            if job.begun is not None and now - job.begun > limit:
                del self.jobs[outcome]
                return self._lost(job, f"timed out: no end {limit:.0f} s after its begin, with --seconds {seconds:g}")
        return None

    def _lost(self, job: _Job, reason: str) -> Trial:
        self.ray.kill(job.staff.worker)
        seconds = None if job.begun is None else time.monotonic() - job.begun
        return replace(job.trial, state="failed", reason=reason, seconds=seconds)

    def _connect(self, threads: int) -> bool:
        """Be connected to Ray; whether it was this call that began it."""
        begun = not self.ray.is_initialized()
        if begun:
            logging.getLogger("ray").setLevel(logging.ERROR)
            with _own_signals():
                self._begin(threads)
        problem = self._misfit(threads, self.ray.cluster_resources())
        if problem:  # workers without a place would be waited for for ever
            if begun:
                self.ray.shutdown()
            raise ConfigError(problem)
        return begun

    def _misfit(self, threads: int, there: dict[str, float]) -> str:
        cpus = there.get("CPU", 0.0)
        if self.workers * threads > cpus:
            needed = f"{self.workers} workers of {threads} threads need as many CPUs"
            return f"{needed}, but the Ray cluster has {cpus:g}: lower --workers or --set run.threads"
        if self.runner.device.type == "cuda" and there.get("GPU", 0.0) < 1:
            return "the Ray cluster has no GPU: use --device cpu"
        return ""

    def _begin(self, threads: int) -> None:
        address = self.config.run.ray_address
        quiet = {"log_to_driver": False, "configure_logging": False}
        if not address:
            gpus = torch.cuda.device_count() if self.runner.device.type == "cuda" else 0
            own = {"num_cpus": self.workers * threads, "num_gpus": gpus, "object_store_memory": self._store()}
            self.ray.init("local", include_dashboard=False, **own, **quiet)
            return
        try:
            self.ray.init(address, **quiet)
        except (ConnectionError, ValueError, RuntimeError) as error:
            reason = str(error).strip().splitlines()[0]
            raise ConfigError(f"no Ray at {address} ({reason}): start it with `ray start --head`") from None

    def _store(self) -> int:
        return _STORE + 2 * sum(split.bytes for split in self.runner.search.task.splits.values())

    def _gpu_share(self) -> float:
        """GPUs of a worker: equal parts, so that as many as needed fit on each."""
        if self.runner.device.type != "cuda":
            return 0.0
        gpus = int(self.ray.cluster_resources()["GPU"])
        together = -(-self.workers // gpus)
        return math.floor(1e4 / together) / 1e4  # Ray counts in ten-thousandths


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Ray puts a handler of its own on SIGTERM, which would end the run at once."""
    handler = signal.getsignal(signal.SIGTERM)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def check_workers(section: RunSection, strategy: str, many: bool) -> None:
    """Refuse workers where they cannot help."""
    if not uses_workers(section):
        return
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise ConfigError("--workers and torchrun both start processes: leave one of them out")
    if not many:
        raise ConfigError(
            f"the strategy '{strategy}' trains one network, which --workers cannot divide: leave it out "
            "(workers are for strategies that try many networks, such as evolution and random)"
        )
    if ":" in section.device:
        raise ConfigError(f"--device {section.device} with --workers: workers share all GPUs; use --device cuda")
    import_ray()


def uses_workers(section: RunSection) -> bool:
    """Whether the trials of a search are trained elsewhere."""
    return section.workers > 1 or bool(section.ray_address)
