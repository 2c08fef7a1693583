"""The verb that sets searches side by side: compare."""

from pathlib import Path
from typing import Annotated

import typer

import eclose
from eclose.cli.answers import chatter_to_stderr, show_answer
from eclose.cli.failures import last_run
from eclose.cli.options import (
    AsJson,
    Axes,
    Channels,
    DataFile,
    DataFolder,
    Device,
    Epochs,
    Kind,
    Label,
    Settings,
    TaskName,
    Tokens,
    Trust,
    Workers,
    budget_option,
    more_option,
    output_option,
    parsed,
    place,
    search_option,
)


def compare(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUN]...", parser=place, help="finished runs; or a comparison, to go on with it"),
    ] = None,
    task: TaskName = "",
    data: DataFile = None,
    spaces: Annotated[str, search_option(metavar="A,B", help="what to compare, see `eclose show spaces`")] = "",
    seeds: Annotated[int, search_option(help="searches of every space, with one seed each")] = 1,
    backbone: Annotated[str, search_option(metavar="NAME|MODULE:ATTR", help="the network to start from")] = "",
    kind: Kind = "",
    tokens: Tokens = False,
    axes: Axes = 0,
    channels: Channels = "",
    label: Label = "",
    data_dir: DataFolder = "",
    epochs: Epochs = None,
    trials: Annotated[int | None, budget_option(help="trainings of a search")] = None,
    minutes: Annotated[float | None, budget_option(help="wall-clock time of each search; default 10")] = None,
    seed: Annotated[int, more_option(help="the first seed")] = 0,
    device: Device = "",
    workers: Workers = None,
    out: Annotated[
        Path | None,
        output_option(
            metavar="DIR", parser=place, help="the folder of the comparison; default runs/DATE-TASK-compared"
        ),
    ] = None,
    settings: Settings = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Search several spaces on the same data, each for the same time; or compare runs that are there."""
    with chatter_to_stderr():
        found = eclose.compare(
            *(runs or []),
            spaces=spaces,
            seeds=seeds,
            task=task,
            data=data,
            backbone=backbone,
            kind=kind,
            tokens=tokens,
            axes=axes,
            channels=channels,
            label=label,
            data_dir=data_dir,
            epochs=epochs,
            trials=trials,
            minutes=minutes,
            seed=seed,
            device=device,
            workers=workers,
            out=out or "",
            settings=parsed(settings),
            trust=trust,
            listeners=[last_run],
        )
    show_answer(found.metrics, as_json, str(found))
