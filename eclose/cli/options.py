"""Options and arguments that several verbs share, and the groups in which the help shows them."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

data_option = partial(typer.Option, rich_help_panel="Data")
search_option = partial(typer.Option, rich_help_panel="What to search")
budget_option = partial(typer.Option, rich_help_panel="Budget")
place_option = partial(typer.Option, rich_help_panel="Where to run")
more_option = partial(typer.Option, rich_help_panel="More")
output_option = partial(typer.Option, rich_help_panel="Output")


def place(text: str) -> Path:
    """The place that a user names; an empty name, such as that of an unset variable, would be where the user is."""
    if not text.strip():
        raise typer.BadParameter("the name is empty: name a place (. is the folder where you are)")
    return Path(text)


RunFolder = Annotated[Path, typer.Argument(metavar="RUN", parser=place, help="a run folder")]
AsJson = Annotated[bool, output_option("--json", metavar="", help="print one JSON object, nothing else")]
Settings = Annotated[
    list[str] | None,
    more_option(
        "--set", metavar="KEY=VALUE", help="any setting, e.g. train.batch=64; a run's config.toml has them all"
    ),
]
TaskName = Annotated[str, data_option(help="a task by name, see `eclose show tasks`")]
DataFile = Annotated[str | None, data_option(metavar="FILE", help="your own .npz, folder of .npy, .csv or .parquet")]
Kind = Annotated[str, data_option(help="classification, regression, dense or segmentation")]
Tokens = Annotated[bool, data_option("--tokens", metavar="", help="integer x (N, length) is a token sequence")]
Axes = Annotated[int, data_option(show_default=False, help="space axes of x, 1 to 3; default: from its shape")]
Channels = Annotated[str, data_option(help="where x has them: first, last, none, columns (a table)")]
Label = Annotated[str, data_option(metavar="COLUMN", help="what is to be learned from a table")]
Minutes = Annotated[
    float | None, budget_option(help="wall-clock time of the whole run; a search without --space has 10")
]
Epochs = Annotated[int | None, budget_option(help="epochs of a training")]
Seed = Annotated[int | None, more_option(help="same seed, same result on a CPU without --minutes")]
Device = Annotated[str, place_option(help="auto, cpu or cuda")]
Workers = Annotated[int | None, place_option(help="trials at a time, where many networks are tried (extra ray)")]
RayAddress = Annotated[str | None, place_option(metavar="HOST:PORT", help="the Ray cluster of the workers")]
TrialNumber = Annotated[int | None, typer.Option("--trial", metavar="N", help="a trial, see `eclose show RUN`")]
Code = Annotated[
    str,
    more_option("--backbone", metavar="MODULE:ATTR", help="the code of the network, where the run did not begin here"),
]
Trust = Annotated[
    bool, more_option("--trust", metavar="", help="call whatever code, and connect to whatever host, the files name")
]
DataFolder = Annotated[str, data_option(metavar="DIR", help="where mnist, cifar10 lie; default $ECLOSE_DATA")]
Out = Annotated[Path | None, output_option(metavar="DIR", parser=place, help="the run folder; default runs/DATE-TASK")]


def parsed(pairs: list[str] | None) -> dict[str, Any]:
    """The values of ``--set``."""
    from eclose.config import parse_overrides

    return parse_overrides(pairs or [])
