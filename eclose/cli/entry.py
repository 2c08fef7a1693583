"""All verbs together, and the exit status of a command.

0: done. 2: the user's mistake, one line on standard error. 130: stopped by Ctrl-C or SIGTERM. 1: anything else.
"""

import errno
import io
import logging
import os
import signal
import sys
import warnings
from typing import Annotated

import typer

import eclose
from eclose.cli.answers import is_first
from eclose.cli.comparing import compare
from eclose.cli.failures import STOPPED, answer_error, fail, interrupted, last_run, stopped
from eclose.cli.searching import resume, retrain, search
from eclose.cli.showing import doctor, show
from eclose.cli.using import explain, export, predict, report
from eclose.waiting import wait_briefly

_ADVICE = {
    errno.ENOSPC: "free some disk space",
    errno.EFBIG: "raise the limit on file sizes",
    errno.EACCES: "check its permissions, or choose another place",
    errno.EROFS: "choose another place",
}


def examples(*lines: str) -> str:
    """For the end of a help text, line by line."""
    return "\n".join(("Examples:", *lines))


app = typer.Typer(
    name="eclose",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Find the neural operation, and the network around it, that a given kind of data needs.",
    epilog=examples(
        "eclose search                                  # a demonstration",
        "eclose search --data mine.npz --minutes 10     # arrays x and y of your own",
        "eclose predict RUN new.npz --out answers.npz   # RUN: the folder of a search",
        "eclose search --help                           # all options of a command",
    ),
)

app.command(
    context_settings={"allow_extra_args": True},  # it says what a bare file name may have meant
    epilog=examples(
        "eclose search --data mine.npz --minutes 10     # arrays x and y",
        "eclose search --data table.csv --label price   # a column to learn",
        "eclose search --data mine.npz --space xd --backbone resnet",
        "eclose search                                  # a demonstration",
    ),
)(search)
for verb in (resume, retrain, compare, predict, export, explain, report, show, doctor):
    app.command()(verb)


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


def app_verbs() -> set[str]:
    """The names of all verbs."""
    return {str(command.callback.__name__) for command in app.registered_commands if command.callback}


def main() -> int:
    """Run the command line; the exit status."""
    from eclose.errors import EcloseError, is_out_of_memory

    last_run.command = ""
    # Of torch, about a copy of the input: nothing that a user could change.
    warnings.filterwarnings("ignore", message="Using padding='same' with even kernel")
    # Of matplotlib, that it has to make its cache elsewhere: likewise.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        status = int(app(standalone_mode=False) or 0)
        return stopped() if status == STOPPED else status
    except EcloseError as error:
        return fail(str(error), 2)
    except KeyboardInterrupt:
        return stopped()
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        advice = _ADVICE.get(error.errno or 0, "look at that file")
        way_out = f", then: {last_run.command}" if last_run.command else ""
        return fail(f"{what}: {advice}{way_out}", 2)
    except Exception as error:
        if hasattr(error, "format_message"):  # typer's own errors about options and arguments
            verb = getattr(getattr(error, "ctx", None), "info_name", None)
            command = f"eclose {verb}" if verb in app_verbs() else "eclose"
            return fail(f"{error.format_message()} (see {command} --help)", 2)
        if type(error).__name__ == "Abort":  # what older versions of typer make of an interruption
            return stopped()
        if is_out_of_memory(error):
            return fail("out of memory: lower --set train.batch, or choose a smaller network", 2)
        if is_first():
            answer_error(" ".join(f"{type(error).__name__}: {error}".split()), 1)
        raise


def run() -> None:
    """Entry point of the console script."""
    wait_briefly()  # torch is not loaded yet
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # as standard error: a name may have letters it has not
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # in the background it is ignored
        signal.signal(signal.SIGINT, interrupted)
    status = main()
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        from eclose.train.parallel import end_process

        end_process(status)
    sys.exit(status)
