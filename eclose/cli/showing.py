"""Verbs that look and change nothing: show, doctor."""

from typing import Annotated

import typer

from eclose.cli.answers import show_answer
from eclose.cli.options import AsJson


def show(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="tasks, spaces, strategies, backbones, recipes or runs; or one recipe, or one run folder",
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """List what there is, the settings of a recipe, or the trials of a run."""
    from eclose.display.terminal.listing import listing

    data, table = listing(what)
    show_answer(data, as_json, table)


def doctor(as_json: AsJson = False) -> None:
    """Check the installation and say what this machine offers."""
    from eclose.display.terminal.doctor import examine

    data, table = examine()
    show_answer(data, as_json, table)
    if data["problems"]:
        raise typer.Exit(1)
