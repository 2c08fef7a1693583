"""Verbs that train networks: search, resume, retrain."""

import shlex
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer

import eclose
from eclose.cli.answers import chatter_to_stderr, console, is_first, print_json
from eclose.cli.failures import last_run
from eclose.cli.options import (
    AsJson,
    Axes,
    Channels,
    Code,
    DataFile,
    DataFolder,
    Device,
    Epochs,
    Kind,
    Label,
    Minutes,
    Out,
    RayAddress,
    RunFolder,
    Seed,
    Settings,
    TaskName,
    Tokens,
    TrialNumber,
    Trust,
    Workers,
    budget_option,
    data_option,
    more_option,
    parsed,
    search_option,
)
from eclose.errors import ConfigError


def search(
    context: typer.Context,
    task: TaskName = "",
    data: DataFile = None,
    space: Annotated[str, search_option(help="what may be chosen, see `eclose show spaces`")] = "",
    backbone: Annotated[
        str, search_option(metavar="NAME|MODULE:ATTR", help="the network to start from, see `eclose show backbones`")
    ] = "",
    strategy: Annotated[str, search_option(help="how to move; default: the space's own")] = "",
    recipe: Annotated[str, search_option(metavar="NAME|FILE", help="settings, see `eclose show recipes`")] = "",
    kind: Kind = "",
    tokens: Tokens = False,
    axes: Axes = 0,
    channels: Channels = "",
    label: Label = "",
    data_dir: DataFolder = "",
    teacher: Annotated[str, search_option(metavar="RUN", help="an earlier run that guides the search")] = "",
    baselines: Annotated[
        str | None, search_option(metavar="A,B", help="backbones to train beside it; '' for none")
    ] = None,
    epochs: Epochs = None,
    trials: Annotated[int | None, budget_option(help="trainings of the search")] = None,
    minutes: Minutes = None,
    seed: Seed = None,
    device: Device = "",
    workers: Workers = None,
    ray_address: RayAddress = None,
    out: Out = None,
    settings: Settings = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Find a network for your data (without options: a demonstration)."""
    if context.args:
        raise ConfigError(f"`eclose search {context.args[0]}`: did you mean --data {context.args[0]}?")
    go = partial(
        eclose.search,
        task=task,
        data=data,
        space=space,
        backbone=backbone,
        strategy=strategy,
        recipe=recipe,
        kind=kind,
        tokens=tokens,
        axes=axes,
        channels=channels,
        label=label,
        data_dir=data_dir,
        teacher=teacher,
        baselines=baselines,
        epochs=epochs,
        trials=trials,
        minutes=minutes,
        seed=seed,
        device=device,
        workers=workers,
        ray_address=ray_address or "",
        out=out or "",
        settings=parsed(settings),
        trust=trust,
    )
    _carry_out(go, as_json)


def resume(
    run: RunFolder,
    workers: Workers = None,
    ray_address: RayAddress = None,
    backbone: Code = "",
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Go on with a run that was interrupted."""
    go = partial(eclose.resume, run, workers=workers, ray_address=ray_address, backbone=backbone, trust=trust)
    _carry_out(go, as_json)


def retrain(
    run: RunFolder,
    task: Annotated[str, data_option(help="another task, see `eclose show tasks`")] = "",
    data: Annotated[str | None, data_option(metavar="FILE", help="other data of your own")] = None,
    recipe: Annotated[
        str, more_option(metavar="NAME|FILE", help="task, sizes and settings of training, see `eclose show recipes`")
    ] = "",
    kind: Kind = "",
    tokens: Tokens = False,
    axes: Axes = 0,
    channels: Channels = "",
    label: Label = "",
    data_dir: DataFolder = "",
    trial: TrialNumber = None,
    epochs: Epochs = None,
    minutes: Annotated[float | None, budget_option(help="wall-clock time of the training")] = None,
    seed: Seed = None,
    device: Device = "",
    out: Out = None,
    settings: Settings = None,
    backbone: Code = "",
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Train the found network (or that of a trial) again from scratch, in a new run; also on other data."""
    go = partial(
        eclose.retrain,
        run,
        task=task,
        data=data,
        recipe=recipe,
        kind=kind,
        tokens=tokens,
        axes=axes,
        channels=channels,
        label=label,
        data_dir=data_dir,
        trial=trial,
        epochs=epochs,
        minutes=minutes,
        seed=seed,
        device=device,
        out=out or "",
        settings=parsed(settings),
        backbone=backbone,
        trust=trust,
    )
    _carry_out(go, as_json)


def _carry_out(go: Callable[..., Any], as_json: bool) -> None:
    with chatter_to_stderr():
        result = go(listeners=[last_run])
    if not is_first():
        return
    if as_json:
        print_json(result.metrics)
        return
    from eclose.display.dashboards.study import dashboard_command, has_study
    from eclose.display.terminal.tables import result_table

    terminal = console()
    terminal.print(result_table(result.metrics))
    terminal.print(f"run     {result.run}\nreport  {result.run / 'report.html'}", soft_wrap=True, highlight=False)
    folder = shlex.quote(str(result.run))
    following = f"next    eclose explain {folder}\n        eclose predict {folder} NEW_FILE --out answers.npz"
    terminal.print(following, soft_wrap=True, highlight=False)
    if has_study(result.run):
        terminal.print(f"trials  {dashboard_command(result.run)}", soft_wrap=True, highlight=False)
