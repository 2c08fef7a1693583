"""Verbs for what a run found: predict, export, explain, report."""

from pathlib import Path
from typing import Annotated

import typer

import eclose
from eclose.cli.answers import chatter_to_stderr, show_answer
from eclose.cli.options import AsJson, Code, Device, RunFolder, TrialNumber, Trust, output_option, place


def predict(
    run: RunFolder,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", parser=place, help=".npz with x (or x_test), .npy, .csv, .parquet")
    ],
    out: Annotated[
        Path, output_option(metavar="FILE", parser=place, help="where to write: .npz, or .npy for the answer alone")
    ],
    trial: TrialNumber = None,
    device: Device = "auto",
    backbone: Code = "",
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Apply the found network to new data."""
    from eclose.tasks.own_data.files import check_name, write_arrays

    if out.exists() and out.samefile(file):
        raise typer.BadParameter(f"{out} is the file to read from; choose another", param_hint="--out")
    check_name(out)
    with chatter_to_stderr():
        arrays = eclose.predict(run, file, trial=trial, device=device, backbone=backbone, trust=trust)
    write_arrays(out, arrays)
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    score = {} if arrays.score is None else {"metric": arrays.metric, "score": arrays.score}
    said = [f"{arrays.metric.replace('_', ' ')} {arrays.score:.4g} against the answers in {file}"] if score else []
    show_answer(
        {"out": str(out), "arrays": shapes, **score}, as_json, "\n".join([f"wrote {out}: {_listed(shapes)}", *said])
    )


def export(
    run: RunFolder,
    to: Annotated[Path, output_option(metavar="DIR", parser=place, help="the folder to write into")],
    format: Annotated[
        str, output_option(help="bundle (for eclose.load), pt2 (torch.export), onnx (extra onnx)")
    ] = "bundle",
    trial: TrialNumber = None,
    backbone: Code = "",
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Write the found network for use elsewhere."""
    with chatter_to_stderr():
        written = eclose.export(run, to, trial=trial, format=format, backbone=backbone, trust=trust)
    files = [str(path) for path in written]
    show_answer({"files": files}, as_json, "wrote " + ", ".join(files))


def explain(
    run: RunFolder,
    trial: TrialNumber = None,
    backbone: Code = "",
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Say what was found: which operations, how far from the start, towards what."""
    from eclose.display.explanation.text import explanation_text

    with chatter_to_stderr():
        sections = eclose.explain(run, trial=trial, backbone=backbone, trust=trust)
    text = explanation_text(sections) if sections else "its space says nothing of its networks"
    show_answer({"run": str(run), "trial": trial, "explanation": sections.as_dict()}, as_json, text)


def report(
    run: RunFolder,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", metavar="", help="also the study for Optuna's dashboard (extra dashboard)")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write the page of a run."""
    from eclose.display.dashboards.study import dashboard_command

    page = eclose.report(run, dashboard=dashboard)
    command = {"dashboard": dashboard_command(run)} if dashboard else {}
    lines = [f"wrote {page}", *(f"see the trials with: {line}" for line in command.values())]
    show_answer({"report": str(page), **command}, as_json, "\n".join(lines))


def _listed(shapes: dict[str, list[int]]) -> str:
    return ", ".join(f"{name} {' x '.join(map(str, shape))}" for name, shape in shapes.items())
