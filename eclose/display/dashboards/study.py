"""A one-way mirror of a search for Optuna's dashboard (extra ``dashboard``): the trial table as an Optuna study.

The table is the only truth. A study that says anything else is made anew, one that was deleted comes back, and one that
cannot be written is told of once, while the search goes on.
"""

import contextlib
import shlex
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eclose.backbones.reference import one_line
from eclose.display.asked import task_name
from eclose.display.dashboards.study_trials import Goals, ended, frozen_trial, identity, identity_of_frozen
from eclose.errors import ConfigError, EcloseError, RunError, typed
from eclose.events import Events, Listener
from eclose.runs import Run, Trial

FILE = "study.sqlite"
_PATIENCE = 1.0  # seconds that a locked file is waited for


def study_listener(run: Run, events: Events) -> Listener:
    """Brings the study of a run up to date at its begin and whenever a trial has ended; never raises."""
    told: set[str] = set()

    def listen(event: str, fields: dict[str, Any]) -> None:
        if event not in ("run", "trial_end", "result"):
            return
        try:
            write_study(run)
        except (EcloseError, OSError) as error:
            if not told:
                told.add(event)
                events.emit("notice", text=f"no dashboard: {error}; the search goes on")

    return listen


def write_study(run: Run, anew: bool = False) -> Path:
    """Bring the study in the run folder up to date with the trial table, or write it from nothing; its path."""
    path, rows = run.path / FILE, ended(run.table.all())
    try:
        optuna = _optuna()
        if anew:
            path.unlink(missing_ok=True)
        with _quiet(optuna), _storage(path, optuna) as storage:
            _update(run, rows, storage, optuna)
    except EcloseError:
        raise
    except Exception as error:  # whatever Optuna and its database make of a file
        reason = one_line(error).partition(" [SQL:")[0].partition(" (Background on")[0]
        way_out = f"`eclose report {typed(run.path)} --dashboard` writes it anew"
        raise RunError(f"{path} cannot be written ({reason}): {way_out}") from None
    return path


def has_study(folder: Path) -> bool:
    """Whether a run folder holds a study."""
    return (folder / FILE).is_file()


def dashboard_command(folder: Path) -> str:
    """What a user types to see the study of a run folder."""
    return f"optuna-dashboard {shlex.quote(f'sqlite:///{folder / FILE}')}"


def _update(run: Run, rows: list[Trial], storage: Any, optuna: Any) -> None:
    goals = Goals.of(run.config)
    wanted = {identity(row, goals): row for row in rows}
    study = _open(run, goals, storage, optuna)
    there = [identity_of_frozen(frozen) for frozen in study.get_trials(deepcopy=False)]
    if len(set(there)) < len(there) or not set(there) <= wanted.keys() or _directions(study) != goals.directions:
        optuna.delete_study(study_name=study.study_name, storage=storage)
        study, there = _open(run, goals, storage, optuna), []
    for key, row in wanted.items():
        if key not in there:
            study.add_trial(frozen_trial(run, row, goals, optuna))
    _describe(study, run)


def _open(run: Run, goals: Goals, storage: Any, optuna: Any) -> Any:
    name = f"{run.config.space.name} on {task_name(run.config, None)}"
    study = optuna.create_study(storage=storage, study_name=name, directions=goals.directions, load_if_exists=True)
    if study.metric_names is None:
        study.set_metric_names(goals.names)
    return study


def _directions(study: Any) -> list[str]:
    return [direction.name.lower() for direction in study.directions]


def _describe(study: Any, run: Run) -> None:
    """What holds for all trials, and the end of the run once it has one."""
    config, result = run.config, run.result or {}
    told = {
        "task": task_name(config, None),
        "space": config.space.name,
        "strategy": config.strategy.name,
        "trials": config.budget.trials,
        "seed": config.run.seed,
        "found": result.get("name"),
        "test": result.get("test"),
    }
    known = study.user_attrs
    for key, value in told.items():
        if value is not None and known.get(key) != value:
            study.set_user_attr(key, value)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise ConfigError("the dashboard needs Optuna: pip install 'eclose[dashboard]'") from None
    return optuna


@contextlib.contextmanager
def _storage(path: Path, optuna: Any) -> Iterator[Any]:
    """The file, opened each time: connections that stay open would write on into a file that was deleted."""
    from sqlalchemy.engine import URL  # comes with Optuna; quotes what a path may hold

    url = URL.create("sqlite", database=str(path)).render_as_string()
    storage = optuna.storages.RDBStorage(url, engine_kwargs={"connect_args": {"timeout": _PATIENCE}})
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()


@contextlib.contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """Without Optuna's log lines and its warnings about names of objectives."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(level)
