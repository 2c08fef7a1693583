"""Executor ``ray`` (extra ``ray``): workers in processes of their own, on this machine or on those of a cluster.

A worker is a long-lived Ray actor. One that dies loses only its trial, and the next trial gets a new one. Workers die
with the driver; a run that lost its driver is resumed, and its trials go on from their checkpoints.
"""

import math
import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from eclose.engine.executors.ray_cluster import RayCluster, import_ray
from eclose.engine.executors.worker import Outcome, Worker, orders_for
from eclose.engine.runner import OUT_OF_MEMORY, TrialRunner
from eclose.errors import ConfigError, EcloseError, Interrupted
from eclose.runs import Trial
from eclose.spaces import Genotype

GRACE = 60.0  # seconds, for what the limit of a training does not count: building, the last evaluation, saving
_POLL = 0.2  # seconds between looks at the clock and at Ctrl-C
_PATIENCE = 10.0  # seconds for workers to stop; who does not answer has its last checkpoint
_STILLBORN = 3  # workers that may die one after the other before they have read the data
_DIED = "its worker process died: killed, crashed, or out of memory"


@dataclass(frozen=True)
class _Staff:
    worker: Any  # an actor
    ready: Any  # a reference that is there once it has read the data


@dataclass
class _Job:
    trial: Trial
    genotype: Genotype
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
        self.stopping_since: float | None = None
        self.stillborn = 0

    @cached_property
    def cluster(self) -> RayCluster:
        """Ray, begun with the first trial: a run that was resumed may need none."""
        splits = self.runner.search.task.splits.values()
        try:
            return RayCluster(self.config.run, self.runner.device, 2 * sum(split.bytes for split in splits))
        except ConfigError as error:
            raise ConfigError(f"{error}, then: eclose resume {self.runner.run.path}") from None

    @cached_property
    def hire(self) -> Any:
        """What makes a worker."""
        actor = self.ray.remote(Worker).options(**self.cluster.share(), max_restarts=0, max_concurrency=2)
        orders = self.ray.put(orders_for(self.runner, self.cluster.threads))
        return lambda: actor.remote(orders)

    def start(self, trial: Trial, genotype: Genotype) -> None:
        """See :class:`Executor`."""
        if self.runner.stop():
            return  # `wait` says so once the others have stopped
        staff = self.idle.pop() if self.idle else self._new_staff()
        self.jobs[staff.worker.train.remote(trial, genotype)] = _Job(trial, genotype, staff)

    def wait(self) -> Trial:
        """See :class:`Executor`. Before it raises ``Interrupted`` it gives the rows of trials that ended meanwhile."""
        while True:
            self._look_around()
            since = self.stopping_since
            if since is not None and (not self.jobs or time.monotonic() - since > _PATIENCE):
                raise Interrupted
            ended, _ = self.ray.wait(list(self.jobs), timeout=_POLL)
            row = self._row(ended[0]) if ended else self._overdue()
            if row is not None:
                return row

    def close(self) -> None:
        """See :class:`Executor`."""
        for staff in [*self.idle, *(job.staff for job in self.jobs.values())]:
            self.ray.kill(staff.worker)
        if "cluster" in vars(self):
            self.cluster.leave()

    def _new_staff(self) -> _Staff:
        worker = self.hire()
        return _Staff(worker, worker.prepare.remote())

    def _look_around(self) -> None:
        """See which workers have begun, and pass on that the user asked to stop."""
        for job in self.jobs.values():
            if job.begun is None and self.ray.wait([job.staff.ready], timeout=0)[0]:
                job.begun = time.monotonic()
        if not self.runner.stop() or self.stopping_since is not None:
            return
        self.stopping_since = time.monotonic()
        for outcome, job in list(self.jobs.items()):
            if job.begun is None:  # has nothing to save
                del self.jobs[outcome]
                self.ray.kill(job.staff.worker)
            else:
                job.staff.worker.stop.remote()

    def _row(self, reference: Any) -> Trial | None:
        """The row of a trial whose worker has answered or died; None: it goes on, now or when the run is resumed."""
        job, errors = self.jobs.pop(reference), self.ray.exceptions
        try:
            outcome: Outcome = self.ray.get(reference)
        except errors.RayTaskError as error:
            raise error.cause from None  # what a training in this process would have raised
        except errors.RayError as error:
            return self._after_death(job, error)
        for event, fields in outcome.told:
            self.runner.events.emit(event, **fields)
        self.stillborn = 0
        if outcome.usable:
            self.idle.append(job.staff)
        else:
            self.ray.kill(job.staff.worker)
        return outcome.row

    def _after_death(self, job: _Job, error: Any) -> Trial | None:
        if getattr(error, "actor_init_failed", False):
            reason = str(error).strip().splitlines()[-1]
            raise EcloseError(f"a worker cannot start ({reason}): install the same eclose on every machine")
        if self.runner.stop():
            return None  # whoever ended us has ended the worker, too
        if self._has_begun(job):
            memory = isinstance(error, self.ray.exceptions.OutOfMemoryError)
            return self._lost(job, OUT_OF_MEMORY if memory else _DIED)
        self.stillborn += 1  # which is not the fault of its trial
        if self.stillborn > _STILLBORN:
            raise EcloseError(
                f"{self.stillborn} workers in turn died before they had read the data, out of memory or killed: "
                f"eclose resume {self.runner.run.path} --workers {max(1, self.workers // 2)}"
            )
        self.start(job.trial, job.genotype)
        return None

    def _has_begun(self, job: _Job) -> bool:
        try:
            self.ray.get(job.staff.ready, timeout=0)
        except self.ray.exceptions.RayError:
            return False
        return True

    def _overdue(self) -> Trial | None:
        """A trial that does not come to its end, with its worker ended."""
        now = time.monotonic()
        for reference, job in self.jobs.items():
            seconds = job.trial.allowed or self.config.budget.training_seconds
            limit = 2 * seconds + GRACE if seconds else math.inf
            if job.begun is not None and now - job.begun > limit:
                del self.jobs[reference]
                reason = f"timed out: no end {limit:.0f} s after its begin, of which it had {seconds:.3g}"
                return self._lost(job, reason)
        return None

    def _lost(self, job: _Job, reason: str) -> Trial:
        self.ray.kill(job.staff.worker)
        seconds = None if job.begun is None else time.monotonic() - job.begun
        return replace(job.trial, state="failed", reason=reason, seconds=seconds)
