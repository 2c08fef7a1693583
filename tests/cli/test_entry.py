"""The front door: help, completion, version; nothing heavy is loaded."""

import subprocess
import sys

import eclose
from tests.end_to_end.command import ROOT, Call, environment


def test_short_help_of_every_verb(call: Call) -> None:
    for verb in ([], ["search"], ["show"], ["export"], ["doctor"]):
        status, out, _ = call(*verb, "-h")
        assert status == 0
        assert "--help" in out


def test_help_begins_with_data_and_ends_with_examples(call: Call) -> None:
    out = call("search", "--help")[1]
    places = [
        out.index(word) for word in ("--data ", "--space", "--minutes", "--set", "Examples:", "eclose search --data")
    ]
    assert places == sorted(places)
    assert "eclose predict RUN new.npz" in call("--help")[1]


def test_flags_do_not_ask_for_a_value(call: Call) -> None:
    for line in call("search", "--help")[1].splitlines():
        if any(flag in line for flag in ("--tokens", "--json", "--trust")):
            assert "<bool>" not in line


def test_a_mistake_points_to_the_help_of_its_command(call: Call) -> None:
    assert "(see eclose explain --help)" in call("explain")[2]
    assert "(see eclose search --help)" in call("search", "--dta", "x")[2]
    assert "(see eclose --help)" in call("serch")[2]


def test_completion_of_the_shell() -> None:
    script = f"{sys.executable} -c 'import sys; sys.argv[0] = \"eclose\"; from eclose.cli import run; run()'"
    asked = {"_ECLOSE_COMPLETE": "complete_bash", "COMP_WORDS": "eclose re", "COMP_CWORD": "1"}
    done = subprocess.run(
        script, shell=True, env=environment(**asked), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["resume", "retrain", "report"]


def test_help_is_instant() -> None:
    """Importing the command line imports nothing heavy; `benchmarks start-up` has the seconds."""
    code = "import eclose.cli, sys; sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=environment(), cwd=ROOT, check=False).returncode == 0
    done = subprocess.run(
        [sys.executable, "-m", "eclose", "--help"],
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "search" in done.stdout


def test_without_a_verb_the_help_is_shown(call: Call) -> None:
    status, out, err = call()
    assert status == 0
    assert "search" in out
    assert err == ""


def test_version(call: Call) -> None:
    assert call("--version") == (0, eclose.__version__ + "\n", "")
