"""The command line: typer verbs, each a few lines over :mod:`eclose.api`.

Exit status: 0 done, 2 the user's mistake (one line on stderr), 130 stopped by Ctrl-C or SIGTERM, 1 anything else.
With ``--json`` one JSON object goes to stdout and nothing else does: the answer, or ``{"error", "status"}``.
"""

import contextlib
import errno
import json
import os
import shlex
import signal
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import eclose
from eclose.errors import ConfigError, readable
from eclose.waiting import wait_briefly

app = typer.Typer(
    name="eclose",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Find the neural operation, and the network around it, that a given kind of data needs.",
)

_STOPPED = 130  # also what typer makes of an interruption

_ADVICE = {
    errno.ENOSPC: "free some disk space",
    errno.EFBIG: "raise the limit on file sizes",
    errno.EACCES: "check its permissions, or choose another place",
    errno.EROFS: "choose another place",
}

_data = partial(typer.Option, rich_help_panel="Data")
_searched = partial(typer.Option, rich_help_panel="What to search")
_budget = partial(typer.Option, rich_help_panel="Budget")
_place = partial(typer.Option, rich_help_panel="Where to run")
_output = partial(typer.Option, rich_help_panel="Output")

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="a run folder")]
AsJson = Annotated[bool, _output("--json", help="print one JSON object, nothing else")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="any setting, e.g. train.batch=64")
]
Kind = Annotated[str, _data(help="classification, regression, dense or segmentation")]
Tokens = Annotated[bool, _data("--tokens", help="integer x (N, length) is a token sequence")]
Axes = Annotated[int, _data(show_default=False, help="space axes of x, 1 to 3; default: from its shape")]
Channels = Annotated[str, _data(help="where x has them: first, last, none, columns (a table)")]
Label = Annotated[str, _data(metavar="COLUMN", help="what is to be learned from a table")]
Minutes = Annotated[float | None, _budget(help="wall-clock time of the whole run; a search without --space has 10")]
Epochs = Annotated[int | None, _budget(help="epochs of a training")]
Seed = Annotated[int | None, typer.Option(help="same seed, same result on a CPU without --minutes")]
Device = Annotated[str, _place(help="auto, cpu or cuda")]
Workers = Annotated[int | None, _place(help="trials at a time, where many networks are tried (extra ray)")]
RayAddress = Annotated[str | None, _place(metavar="HOST:PORT", help="the Ray cluster of the workers")]
TrialNumber = Annotated[int | None, typer.Option("--trial", metavar="N", help="a trial, see `eclose show RUN`")]
Code = Annotated[
    str,
    typer.Option("--backbone", metavar="MODULE:ATTR", help="the code of the network, where the run did not begin here"),
]
Trust = Annotated[
    bool, typer.Option("--trust", help="call whatever code, and connect to whatever host, the files name")
]
DataFolder = Annotated[str, _data(metavar="DIR", help="where mnist, cifar10 lie; default $ECLOSE_DATA")]
Out = Annotated[str, _output(metavar="DIR", help="the run folder; default runs/DATE-TASK")]


@app.command(context_settings={"allow_extra_args": True})
def search(
    context: typer.Context,
    task: Annotated[str, _data(help="a task by name, see `eclose show tasks`")] = "",
    data: Annotated[str | None, _data(metavar="FILE", help="your own .npz, folder of .npy, .csv or .parquet")] = None,
    space: Annotated[str, _searched(help="what may be chosen, see `eclose show spaces`")] = "",
    backbone: Annotated[
        str, _searched(metavar="NAME|MODULE:ATTR", help="the network to start from, see `eclose show backbones`")
    ] = "",
    strategy: Annotated[str, _searched(help="how to move; default: the space's own")] = "",
    recipe: Annotated[str, _searched(metavar="NAME|FILE", help="settings, see `eclose show recipes`")] = "",
    kind: Kind = "",
    tokens: Tokens = False,
    axes: Axes = 0,
    channels: Channels = "",
    label: Label = "",
    data_dir: DataFolder = "",
    teacher: Annotated[str, _searched(metavar="RUN", help="an earlier run that guides the search")] = "",
    baselines: Annotated[str | None, _searched(metavar="A,B", help="backbones to train beside it; '' for none")] = None,
    epochs: Epochs = None,
    trials: Annotated[int | None, _budget(help="trainings of the search")] = None,
    minutes: Minutes = None,
    seed: Seed = None,
    device: Device = "",
    workers: Workers = None,
    ray_address: RayAddress = None,
    out: Out = "",
    settings: Settings = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Find a network for your data (without options: the default recipe)."""
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
        out=out,
        settings=_settings(settings),
        trust=trust,
    )
    _carry_out(go, as_json)


@app.command()
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


@app.command()
def retrain(
    run: RunFolder,
    task: Annotated[str, _data(help="another task, see `eclose show tasks`")] = "",
    data: Annotated[str | None, _data(metavar="FILE", help="other data of your own")] = None,
    kind: Kind = "",
    tokens: Tokens = False,
    axes: Axes = 0,
    channels: Channels = "",
    label: Label = "",
    data_dir: DataFolder = "",
    trial: TrialNumber = None,
    epochs: Epochs = None,
    minutes: Minutes = None,
    seed: Seed = None,
    device: Device = "",
    out: Out = "",
    settings: Settings = None,
    backbone: Code = "",
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Train the found network (or that of a trial) again from scratch, in a new run; also on other data."""
    given: dict[str, Any] = {
        "task": task,
        "data": data,
        "kind": kind,
        "tokens": tokens,
        "axes": axes,
        "channels": channels,
        "label": label,
        "data_dir": data_dir,
        "trial": trial,
        "epochs": epochs,
        "minutes": minutes,
        "seed": seed,
        "device": device,
        "out": out,
    }
    given |= {"settings": _settings(settings), "backbone": backbone, "trust": trust}
    _carry_out(partial(eclose.retrain, run, **given), as_json)


@app.command()
def compare(
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="[RUN]...", help="finished runs; or a comparison, to go on with it")
    ] = None,
    task: Annotated[str, _data(help="a task by name, see `eclose show tasks`")] = "",
    data: Annotated[str | None, _data(metavar="FILE", help="your own .npz, folder of .npy, .csv or .parquet")] = None,
    spaces: Annotated[str, _searched(metavar="A,B", help="what to compare, see `eclose show spaces`")] = "",
    seeds: Annotated[int, _searched(help="searches of every space, with one seed each")] = 1,
    backbone: Annotated[str, _searched(metavar="NAME|MODULE:ATTR", help="the network to start from")] = "",
    kind: Kind = "",
    tokens: Tokens = False,
    axes: Axes = 0,
    channels: Channels = "",
    label: Label = "",
    data_dir: DataFolder = "",
    epochs: Epochs = None,
    trials: Annotated[int | None, _budget(help="trainings of a search")] = None,
    minutes: Annotated[float | None, _budget(help="wall-clock time of each search; default 10")] = None,
    seed: Annotated[int, typer.Option(help="the first seed")] = 0,
    device: Device = "",
    workers: Workers = None,
    out: Annotated[
        str, _output(metavar="DIR", help="the folder of the comparison; default runs/DATE-TASK-compared")
    ] = "",
    settings: Settings = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Search several spaces on the same data, each for the same time; or compare runs that are there."""
    given: dict[str, Any] = {
        "spaces": spaces,
        "seeds": seeds,
        "task": task,
        "data": data,
        "backbone": backbone,
        "kind": kind,
        "tokens": tokens,
        "axes": axes,
        "channels": channels,
        "label": label,
        "data_dir": data_dir,
        "epochs": epochs,
        "trials": trials,
        "minutes": minutes,
        "seed": seed,
        "device": device,
        "workers": workers,
        "out": out,
    }
    with _chatter_to_stderr():
        found = eclose.compare(*(runs or []), **given, settings=_settings(settings), trust=trust, listeners=[last_run])
    _show(found.metrics, as_json, str(found))


@app.command()
def predict(
    run: RunFolder,
    file: Annotated[Path, typer.Argument(metavar="FILE", help=".npz with x (or x_test), .npy, .csv, .parquet")],
    out: Annotated[Path, _output(metavar="FILE", help="where to write: .npz, or .npy for the answer alone")],
    trial: TrialNumber = None,
    device: Device = "auto",
    backbone: Code = "",
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Apply the found network to new data."""
    from eclose.tasks.own_data.files import write_arrays

    if out.exists() and out.samefile(file):
        raise typer.BadParameter(f"{out} is the file to read from; choose another", param_hint="--out")
    with _chatter_to_stderr():
        arrays = eclose.predict(run, file, trial=trial, device=device, backbone=backbone, trust=trust)
    write_arrays(out, arrays)
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    score = {} if arrays.score is None else {"metric": arrays.metric, "score": arrays.score}
    said = [f"{arrays.metric.replace('_', ' ')} {arrays.score:.4g} against the answers in {file}"] if score else []
    _show({"out": str(out), "arrays": shapes, **score}, as_json, "\n".join([f"wrote {out}: {_listed(shapes)}", *said]))


@app.command()
def export(
    run: RunFolder,
    to: Annotated[Path, _output(metavar="DIR", help="the folder to write into")],
    format: Annotated[str, _output(help="bundle (for eclose.load), pt2 (torch.export), onnx (extra onnx)")] = "bundle",
    trial: TrialNumber = None,
    backbone: Code = "",
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Write the found network for use elsewhere."""
    with _chatter_to_stderr():
        written = eclose.export(run, to, trial=trial, format=format, backbone=backbone, trust=trust)
    files = [str(path) for path in written]
    _show({"files": files}, as_json, "wrote " + ", ".join(files))


@app.command()
def explain(
    run: RunFolder,
    trial: TrialNumber = None,
    backbone: Code = "",
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Say what was found: which operations, how far from the start, towards what."""
    from eclose.display.explanation.text import explanation_text

    with _chatter_to_stderr():
        sections = eclose.explain(run, trial=trial, backbone=backbone, trust=trust)
    text = explanation_text(sections) if sections else "its space says nothing of its networks"
    _show({"run": str(run), "trial": trial, "explanation": sections.as_dict()}, as_json, text)


@app.command()
def report(
    run: RunFolder,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="also the study for Optuna's dashboard (extra dashboard)")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write the page of a run."""
    from eclose.display.dashboards.study import dashboard_command

    page = eclose.report(run, dashboard=dashboard)
    command = {"dashboard": dashboard_command(run)} if dashboard else {}
    lines = [f"wrote {page}", *(f"see the trials with: {line}" for line in command.values())]
    _show({"report": str(page), **command}, as_json, "\n".join(lines))


@app.command()
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
    _show(data, as_json, table)


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Check the installation and say what this machine offers."""
    from eclose.display.terminal.doctor import examine

    data, table = examine()
    _show(data, as_json, table)
    if data["problems"]:
        raise typer.Exit(1)


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="print the version and exit")] = False,
) -> None:
    if version:
        print(eclose.__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


class _LastRun:
    """Remembers how to go on with what is under way, for the message after an interruption."""

    command = ""

    def __call__(self, event: str, fields: dict[str, Any]) -> None:
        if event == "comparison":
            self.command = f"eclose compare {shlex.quote(fields['path'])}"
        elif event == "run" and not self.command.startswith("eclose compare"):
            self.command = f"eclose resume {shlex.quote(fields['path'])}"


last_run = _LastRun()


def _carry_out(go: Callable[..., Any], as_json: bool) -> None:
    with _chatter_to_stderr():
        result = go(listeners=[last_run])
    if not _is_first():
        return
    if as_json:
        _print_json(result.metrics)
        return
    from eclose.display.dashboards.study import dashboard_command, has_study
    from eclose.display.terminal.tables import result_table

    console = _console()
    console.print(result_table(result.metrics))
    console.print(f"run     {result.run}\nreport  {result.run / 'report.html'}", soft_wrap=True, highlight=False)
    if has_study(result.run):
        console.print(f"trials  {dashboard_command(result.run)}", soft_wrap=True, highlight=False)


def _chatter_to_stderr() -> contextlib.AbstractContextManager[Any]:
    """A user's network may print; standard output is for the answer alone."""
    return contextlib.redirect_stdout(sys.stderr)


def _settings(pairs: list[str] | None) -> dict[str, Any]:
    from eclose.config import parse_overrides

    return parse_overrides(pairs or [])


def _show(data: Any, as_json: bool, text: Any) -> None:
    if as_json:
        _print_json(data)
        return
    _console().print(text, soft_wrap=isinstance(text, str), highlight=False)


def _console() -> Any:
    from eclose.display.terminal.console import Terminal

    return Terminal()


def _print_json(data: Any) -> None:
    from eclose.runs.files import plain

    print(json.dumps(plain(data), allow_nan=False), flush=True)


def _listed(shapes: dict[str, list[int]]) -> str:
    return ", ".join(f"{name} {' x '.join(map(str, shape))}" for name, shape in shapes.items())


def _is_first() -> bool:
    """Under torchrun the first process speaks."""
    return os.environ.get("RANK", "0") == "0"


def _fail(message: str, status: int) -> int:
    line = " ".join(message.split())
    if _is_first():
        print(f"eclose: {readable(line)}", file=sys.stderr)
        _answer_error(line, status)
    return status


def _answer_error(line: str, status: int) -> None:
    # Read from the words themselves: what went wrong may be that they could not be understood.
    if "--json" in sys.argv:
        try:
            _print_json({"error": line, "status": status})
        except OSError:  # there is nobody to tell, and Python must not try again when it ends
            sys.stdout = None


def _stopped() -> int:
    way_out = f"; go on with: {last_run.command}" if last_run.command else ""
    return _fail(f"stopped{way_out}", _STOPPED)


def _interrupted(number: int, frame: Any) -> None:
    """Ctrl-C. While torch is being loaded an exception would end in its C++ parts, which abort."""
    if getattr(getattr(sys.modules.get("torch"), "__spec__", None), "_initializing", False):
        status = _stopped()
        sys.stdout.flush()
        os._exit(status)
    raise KeyboardInterrupt


def main() -> int:
    """Run the command line; the exit status."""
    from eclose.errors import EcloseError, is_out_of_memory

    last_run.command = ""
    # Of torch, about a copy of the input: nothing that a user could change.
    warnings.filterwarnings("ignore", message="Using padding='same' with even kernel")
    try:
        status = int(app(standalone_mode=False) or 0)
        return _stopped() if status == _STOPPED else status
    except EcloseError as error:
        return _fail(str(error), 2)
    except KeyboardInterrupt:
        return _stopped()
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        advice = _ADVICE.get(error.errno or 0, "look at that file")
        way_out = f", then: {last_run.command}" if last_run.command else ""
        return _fail(f"{what}: {advice}{way_out}", 2)
    except Exception as error:
        if hasattr(error, "format_message"):  # typer's own errors about options and arguments
            return _fail(f"{error.format_message()} (see eclose --help)", 2)
        if type(error).__name__ == "Abort":  # what older versions of typer make of an interruption
            return _stopped()
        if is_out_of_memory(error):
            return _fail("out of memory: lower --set train.batch, or choose a smaller network", 2)
        if _is_first():
            _answer_error(" ".join(f"{type(error).__name__}: {error}".split()), 1)
        raise


def run() -> None:
    """Entry point of the console script."""
    wait_briefly()  # torch is not loaded yet
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # in the background it is ignored
        signal.signal(signal.SIGINT, _interrupted)
    status = main()
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        from eclose.train.parallel import end_process

        end_process(status)
    sys.exit(status)
