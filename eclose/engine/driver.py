"""The driver: takes a run from wherever it stands to its end.

Stages made of trainings that are rows of the trial table: a teacher where the run has one of its own, the search, the
final trainings of what it chose where the strategy has some, the baselines; then the figures. A training that has its
row done is never repeated; one that was under way goes on from its checkpoint.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from eclose.engine.baselines import baselines
from eclose.engine.clock import Clock, beyond, for_steps, time_for_first_tests, time_for_tests
from eclose.engine.executors.executor import Executor, SerialExecutor
from eclose.engine.executors.ray_cluster import uses_workers
from eclose.engine.executors.ray_executor import RayExecutor
from eclose.engine.final import behind, final_search
from eclose.engine.predictors import Predictor, best_fitted, fit_predictors, record_fitted
from eclose.engine.prefilter import Prefilter
from eclose.engine.result import finish, is_fitted
from eclose.engine.runner import TrialRunner
from eclose.engine.scores import Scores
from eclose.engine.selection import ranked
from eclose.engine.strategy import Role, Search, Strategy, compared, is_trained_anew, trainings_after
from eclose.engine.teaching import SHARE, is_trained_first, load_teacher, teacher_genotype
from eclose.errors import EcloseError, RunError
from eclose.events import Events
from eclose.runs import Run, Trial
from eclose.spaces import Genotype, assemble
from eclose.train import World, choose_device, generator_for, seed_for, torch_settings
from eclose.train.metrics import make_metric
from eclose.train.seeds import own_numbers

_WORTH = 0.5  # of the time of its trial: a shorter final training would hardly be as good


@dataclass
class Driver:
    """One run in the hands of one process (or of several under torchrun, of which the first writes)."""

    run: Run
    search: Search
    strategy: Strategy
    world: World
    events: Events
    stop: Callable[[], bool]
    begun: float = field(default_factory=time.perf_counter)  # when the data were there: the run's minutes count from it
    first_tests: dict[str, float] = field(default_factory=dict)  # seconds, by the hash of a network

    def __post_init__(self) -> None:
        self.config, self.task = self.search.config, self.search.task
        self.device = choose_device(self.config.run.device)
        self.metric = make_metric(self.config.task.metric)
        self.ending = final_search(self.search)  # for final trainings and baselines alike
        self.runner = TrialRunner(
            self.run, self.search, self.ending, self.strategy, self.device, self.world, self.events, self.stop
        )
        self.clock = Clock(60 * self.config.budget.minutes, self.runner.trials(), self.begun, self._testing)
        selection = self.strategy.selection
        candidates = selection.prefilter if selection else 0
        self.prefilter = Prefilter(self.search, self.strategy, candidates, self.device, self.events)

    def go(self) -> dict[str, Any]:
        """Run to the end; the content of ``result.json``."""
        self.events.emit(
            "run",
            path=str(self.run.path),
            task=self.task.name,
            space=self.config.space.name,
            strategy=self.config.strategy.name,
        )
        if self.world.rank == 0:
            of_space = [] if self.search.given else self.search.space.notices(self.task.signature)
            for text in [*of_space, *self.strategy.notices(self.search)]:
                self.events.emit("notice", text=text)
        with torch_settings(self.config.run, self.config.train.precision), own_numbers(self.device):
            predictors = self._predictors()
            self.events.emit("to_beat", rows=[{"name": p.name, "valid": p.valid} for p in predictors])
            if self.strategy.fitted:
                self._fitted(best_fitted(predictors, self.task, self.metric.goal))
            self._be_taught()
            best = self._final(self._search(), predictors)
            for name, genotype in baselines(self.config, self.task.signature).items():
                self._once("baseline", name, genotype, name)
            trials = self.runner.trials()
            parts = (self.run, self.search, self.strategy, best, trials, predictors, self.device, self.world)
            result = finish(*parts, late=self.clock.late)
        if late := self.clock.exceeded():
            self.events.emit("notice", text=late)
        self.events.emit("result", **result)
        return result

    def _predictors(self) -> list[Predictor]:
        """Those of the first process; others have none."""
        if self.world.rank:
            return []
        return fit_predictors(self.task, self.metric, self.config.budget.minutes)

    def _testing(self, trials: Sequence[Trial]) -> float:
        """Seconds of the tests in the end; supernets, which are much slower, are not tested."""
        best, anew = self.strategy.standing(self.search, compared(trials)), is_trained_anew(self.search)
        known = 0.0 if anew else time_for_tests(best, self.task)
        if known or self.strategy.selection is not None:
            return known
        return self._first_tests(Genotype(best[0].space, best[0].genotype) if best and anew else self.search.start)

    def _first_tests(self, genotype: Genotype) -> float:
        """Those of a few long trainings, before one has ended: as long as new networks of a genotype would take."""
        if genotype.hash not in self.first_tests:
            network = self.search.space.build(genotype, self.task.signature)
            model = assemble(network, self.task.signature, self.task.scale).to(self.device)
            networks = 1 + trainings_after(self.config) - self.config.final.networks
            seconds = time_for_first_tests(model, self.task, self.config.task.metric, networks, self.device)
            self.first_tests[genotype.hash] = seconds
        return self.first_tests[genotype.hash]

    def _be_taught(self) -> None:
        """Give the search its teacher, which is trained first where there is none yet."""
        trained = None
        if is_trained_first(self.config):
            genotype = teacher_genotype(self.config, self.task.signature)
            trained = self._once("teacher", f"{genotype.label} (teacher)", genotype, "teacher")
            if trained.state == "failed":
                raise EcloseError(f"the training of the teacher failed: {trained.reason} (run kept in {self.run.path})")
        if (teacher := load_teacher(self.run, self.search, trained, self.device)) is not None:
            self.search = replace(self.search, teacher=teacher)
            self.ending = final_search(self.search)
            self.runner = replace(self.runner, search=self.search, ending=self.ending)

    def _fitted(self, predictor: Predictor | None, chosen: Trial | None = None) -> Trial:
        """The row of the fitted model, made once; with ``chosen``, that row, the one of its fit to all samples.

        The first process has the model itself.
        """
        role, trials = "fitted" if chosen is None else "final", self.runner.trials()
        known = [trial for trial in trials if trial.role == role and is_fitted(trial)]
        if known and self._has_weights(known[0]):
            return known[0]
        number = known[0].number if known else len(trials)
        if predictor is not None:
            loss, judging = predictor.loss(self.task), predictor.judging
            figures: dict[str, Any] = {"valid": predictor.valid, "valid_loss": loss, "judging": judging}
            if chosen is not None:
                predictor = predictor.fitted_to(self.ending.task, self.task, self.metric)
                figures = {"valid": chosen.valid, "fit": predictor.valid}
            record_fitted(self.run, self.search, predictor, number, role, self._seed(role, "fitted"), **figures)
        return self.runner.trials()[number]

    def _search(self) -> list[Trial]:
        """The trials of the search that succeeded, best first."""
        executor = self._executor()
        try:
            while True:
                self._work_off(executor)
                trials = self._searched()
                order = self.strategy.standing(self.search, compared(self.runner.trials()))
                if not order:
                    reason = trials[-1].reason if trials else "the space gave no network"
                    raise EcloseError(f"no training succeeded: {reason} (run kept in {self.run.path})")
                if is_trained_anew(self.search) or self._has_weights(order[0]):
                    return order
                executor.start(order[0], self._asked(order[0]))  # somebody deleted them: train again
                self._record(executor.wait())
        finally:
            executor.close()

    def _work_off(self, executor: Executor) -> None:
        """Train what the strategy asks for until it asks for nothing more; nobody waits for a generation."""
        under_way: set[int] = set()
        while True:
            while len(under_way) < executor.workers and (following := self._next(under_way)) is not None:
                trial, genotype = following
                executor.start(trial, genotype)
                under_way.add(trial.number)
                if executor.workers > 1:
                    self.runner.announce(trial)
            if not under_way:
                return
            ended = executor.wait()
            self._record(ended)
            under_way.remove(ended.number)

    def _next(self, under_way: set[int]) -> tuple[Trial, Genotype] | None:
        """A trial that was under way when the run was interrupted, else what the strategy asks for."""
        trials, every = self._searched(), compared(self.runner.trials())
        left = [trial for trial in trials if trial.state == "running" and trial.number not in under_way]
        if left:
            return left[0], self._asked(left[0])
        share = self.strategy.share(self.search, every) if self.clock.limited else 1.0
        if share <= 0 or self.world.tell(self._late(trials)):
            return None
        generator = generator_for(self.config.run.seed, "ask", len(trials))
        asked, scores = self._ask(every, generator)
        if asked is None:
            return None
        limit = self.world.tell(self.clock.limit(share * self.workers, trials))
        before = self.strategy.goes_on(self.search, every, asked)
        known = {"scores": scores, "allowed": limit, "goes_on": before.number if before else None}
        return self._new_trial("search", asked.label, asked, len(trials), **known), asked

    def _late(self, trials: list[Trial]) -> bool:
        """Whether there is something to end with, and no time for more."""
        return any(trial.state == "done" for trial in trials) and self.clock.over(trials)

    def _ask(self, trials: list[Trial], generator: torch.Generator) -> tuple[Genotype | None, Scores]:
        if not self.prefilter.candidates:
            return self.strategy.ask(self.search, trials, generator), {}
        asked = None
        if self.world.rank == 0:  # scores of another process may differ by rounding: the first one decides for all
            asked = self.prefilter.ask(trials, generator, self._seed("search", len(trials)))
        return self.world.tell(asked) or (None, {})

    def _searched(self) -> list[Trial]:
        return [trial for trial in self.runner.trials() if trial.role == "search"]

    @property
    def workers(self) -> int:
        """Trainings at a time."""
        return self.config.run.workers if uses_workers(self.config.run) else 1

    def _executor(self) -> Executor:
        return RayExecutor(self.runner) if uses_workers(self.config.run) else SerialExecutor(self.runner)

    def _final(self, order: list[Trial], predictors: list[Predictor]) -> Trial:
        """What the run found: the best of the search, trained once more where the configuration asks for it."""
        if self.ending is self.search:
            return order[0]
        ended = [
            self._fitted_anew(trial, predictors) if trial.role == "fitted" else self._trained_anew(trial, place)
            for place, trial in enumerate(order[: self.config.final.networks])
        ]
        return ended[0]

    def _fitted_anew(self, chosen: Trial, predictors: list[Predictor]) -> Trial:
        """The model fitted to all samples of the final stage, if these are more; itself if that is behind it."""
        predictor = next((each for each in predictors if each.name == chosen.name), None)
        if self.ending.task is self.task or self.world.tell(predictor is None):
            return chosen
        row = self._fitted(predictor, chosen)
        if lag := behind(row, chosen, self.metric):
            self._say_of(row, lag)
            return self._say_of(chosen, "this is the fit to training samples alone: that to all of them is worse")
        return row

    def _trained_anew(self, chosen: Trial, place: int) -> Trial:
        """The final training of a trial, or a second one, or the trial itself: the first that is not behind it.

        One that has left validation samples alone is compared with its trial there.
        """
        anew = is_trained_anew(self.search)
        if not anew and self._without_final(chosen):
            return self._say_of(chosen, "these are the searched weights: all of the time went into the search")
        if len(self.ending.task.val) and not anew:
            row = self._once("final", chosen.name, self._found(chosen), str(place), valid=chosen.valid)
            if row.state == "done" and ranked([row, chosen], self.metric.goal)[0] is row:
                return row
            return self._say_of(chosen, "these are the searched weights: those trained anew are worse")
        before = chosen.number if self.strategy.goes_on_in_the_end(self.search, chosen) else None
        for seed in (str(place), f"{place} again"):
            row = self._once("final", chosen.name, self._found(chosen), seed, valid=chosen.valid, goes_on=before)
            lag = behind(row, chosen, self.metric)
            if not lag or (anew and row.state == "done"):
                return row
            self._say_of(row, lag)
            before = None
            if self.world.tell(self.clock.over(self.runner.trials())):
                break
        if anew:
            raise EcloseError(f"no final training succeeded: {row.reason} (run kept in {self.run.path})")
        return self._say_of(chosen, "these are the searched weights: those trained anew are worse")

    def _without_final(self, chosen: Trial) -> bool:
        """Whether too little time is left for one that could be as good, and none has begun."""
        trials = self.runner.trials()
        if not self.clock.limited or any(trial.role == "final" and trial.name == chosen.name for trial in trials):
            return False
        least = _WORTH * for_steps(chosen)
        return bool(self.world.tell(self.clock.over(trials) or (self._limit("final") or least) < least))

    def _say_of(self, trial: Trial, note: str) -> Trial:
        if trial.note != note:
            self.events.emit("notice", text=f"{trial.name}: {note}")
        trial = replace(self.runner.trials()[trial.number], note=note)  # its own figures, no means of several
        if self.world.rank == 0:
            self.run.table.put(trial)
        return trial

    def _once(self, role: Role, name: str, genotype: Genotype, part: str, **known: Any) -> Trial:
        """The row of a training that is not part of the search, which the table may have already."""
        wanted = (role, name, genotype.hash, self._seed(role, part))
        rows = [t for t in self.runner.trials() if (t.role, t.name, t.hash, t.seed) == wanted]
        if rows and (rows[0].state == "failed" or (rows[0].state == "done" and self._has_weights(rows[0]))):
            return rows[0]
        if rows:
            trial = rows[0]
        else:
            trial = self._new_trial(role, name, genotype, part, allowed=self.world.tell(self._limit(role)), **known)
        return self._record(self.runner.train(trial, genotype))

    def _limit(self, role: Role) -> float | None:
        """Seconds of the next training that is not part of the search.

        A GPU sets up for it as for that of a supernet, which may be the only one before.
        """
        trials = self.runner.trials()
        left = trainings_after(self.config) - sum(trial.role in ("final", "baseline") for trial in trials)
        foreseen = max(map(beyond, trials), default=0.0) if self.device.type == "cuda" else 0.0
        return self.clock.limit(SHARE if role == "teacher" else 1 / max(1, left), trials, foreseen)

    def _record(self, trial: Trial) -> Trial:
        if self.clock.limited:
            trial = replace(trial, elapsed=self.world.tell(self.clock.elapsed()))
        self.runner.record(trial)
        return trial

    def _asked(self, trial: Trial) -> Genotype:
        """What the training of a trial begins with; once it has ended, its row has what was found."""
        folder = self.run.trial_folder(trial.number)
        genotype = Genotype.load(folder, "asked")
        if trial.state == "running" and (genotype.space, genotype.choices) != (trial.space, trial.genotype):
            raise RunError(
                f"{folder / 'asked.json'} is damaged (the trial table has another network there): restore it from a "
                "copy, or start a new run"
            )
        return genotype

    def _found(self, trial: Trial) -> Genotype:
        return Genotype.load(self.run.trial_folder(trial.number))

    def _has_weights(self, trial: Trial) -> bool:
        return bool(self.world.agree(self.runner.weights(trial).exists()))

    def _seed(self, role: str, part: int | str) -> int:
        return seed_for(self.config.run.seed, role, part) % 2**31

    def _new_trial(self, role: str, name: str, genotype: Genotype, part: int | str, **known: Any) -> Trial:
        """A row for a training; ``known``: what the table may say of it already."""
        number, seed = len(self.runner.trials()), self._seed(role, part)
        named = (name, genotype.space, genotype.choices, genotype.hash)
        known |= {"origin": genotype.origin, "parents": list(genotype.parents), "description": genotype.description}
        trial = Trial(number, role, *named, seed, **known)
        if self.world.rank == 0:
            genotype.save(self.run.trial_folder(number), "asked")
            self.run.table.put(trial)
        return trial
