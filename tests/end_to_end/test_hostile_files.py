"""Files are data: every entry point, with folders that somebody else made to do harm."""

import dataclasses
import json
import os
import pickle
import shutil
import socket
import sqlite3
import struct
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import eclose as library
from eclose.backbones.consent import Consent, consenting
from eclose.cli import main
from eclose.display.terminal.listing import listing
from eclose.engine import Driver, Search, make_strategy
from eclose.engine.executors.worker import Worker, orders_for
from eclose.errors import ConfigError, EcloseError, RunError, TaskError
from eclose.events import Events
from eclose.runs import Run, cache_folder
from eclose.runs import foreign as origins
from eclose.spaces import Genotype
from eclose.tasks import load_task
from eclose.train import World, save_tensors
from tests.end_to_end.command import eclose

NETS = """
from torch import nn

def make_net(width=4):
    return nn.Sequential(nn.Conv1d(2, width, 3, padding=1), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(width, 3))
"""
TRAP = "open({marker!r}, 'w').close()\ndef make_net(**options): open({marker!r}, 'w').close()\n"
FAST: dict[str, Any] = {"run.threads": 1, "train.batch": 8}


def plain_search(**given: Any) -> library.Result:
    return library.search(data="data.npz", space="backbone", epochs=1, settings=FAST, **given)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The user's own folder: a network as code, data, a finished run."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "nets.py").write_text(NETS)
    rng = np.random.default_rng(0)
    np.savez(folder / "data.npz", x=rng.normal(size=(30, 2, 8)).astype(np.float32), y=np.arange(30) % 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        plain_search(backbone="nets:make_net", out="run")
    yield folder
    sys.modules.pop("nets", None)


@pytest.fixture
def outside(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of the user's that no foreign run may change; beside it, where the user is, modules were planted."""
    folder, here = tmp_path / "outside", tmp_path / "here"
    folder.mkdir()
    here.mkdir()
    for name in ("precious.txt", "precious.sqlite", "weights.safetensors", "checkpoint.safetensors"):
        (folder / name).write_text("mine")
    for module in ("nets", "evil"):
        (here / f"{module}.py").write_text(TRAP.format(marker=str(folder / "PWNED")))
    monkeypatch.chdir(here)
    monkeypatch.syspath_prepend("")  # as in `python -m` and in an interactive Python
    sys.modules.pop("nets", None)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    yield folder
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    assert "evil" not in sys.modules
    assert not (here / "PWNED").exists()


def predicted(folder: Path, **consent: Any) -> None:
    library.predict(folder, np.zeros((2, 2, 8), np.float32), **consent)


def exported(folder: Path, **consent: Any) -> None:
    library.export(folder, folder.parent / "exported", **consent)


def trained_again(folder: Path, **consent: Any) -> None:
    library.retrain(folder, epochs=1, out=folder.parent / "again", **consent)


def used_as_recipe(folder: Path, **consent: Any) -> None:
    (folder / "config.toml").rename(folder / "recipe.toml")
    library.search(recipe=str(folder / "recipe.toml"), out=folder.parent / "new", **consent)


def explained_anew(folder: Path, **consent: Any) -> None:
    """Of a run that says nothing of its network itself."""
    file = folder / "result.json"
    if file.is_symlink():
        library.explain(folder, **consent)
        return
    before = file.read_text()
    edit(file, lambda result: {key: result[key] for key in result if key != "explanation"})
    try:
        library.explain(folder, **consent)
    finally:
        file.write_text(before)


def shown(folder: Path) -> None:
    listing(str(folder))


BUILDING: dict[str, Callable[..., Any]] = {
    "load": library.load,
    "load of a trial": partial(library.load, trial=0),
    "explain of a trial": partial(library.explain, trial=0),
    "explain of an older run": explained_anew,
    "predict": predicted,
    "export": exported,
    "retrain": trained_again,
    "resume": library.resume,
    "recipe": used_as_recipe,
}
ENTRIES = {**BUILDING, "report": library.report, "show": shown, "explain": library.explain}


def foreign(project: Path, entry: str) -> Path:
    """A copy of the run, which therefore did not begin here; not finished where it is to be resumed."""
    folder = project.parent / "downloads" / f"{entry.replace(' ', '-')}-{len(list(project.parent.glob('downloads/*')))}"
    shutil.copytree(project / "run", folder)
    if entry == "resume":
        (folder / "result.json").unlink()
        (folder / "settings.toml").unlink()  # nobody who edits a run would leave what tells of it
    return folder


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def name_code(folder: Path, reference: str, options: dict[str, Any]) -> None:
    """Every file that names code names this."""

    def change(data: dict[str, Any]) -> dict[str, Any]:
        return {**data, "choices": {"backbone": reference, "options": options}}

    for file in (folder / "genotype.json", *folder.glob("trials/*/*.json")):
        edit(file, change)
    shutil.copy(folder / "genotype.json", folder / "start.json")
    given = "".join(f"\n{key} = {value!r}" for key, value in options.items())
    replace(folder / "config.toml", 'name = "nets:make_net"', f'name = "{reference}"\n[backbone.options]{given}')


def refusal(action: Callable[[Path], Any], folder: Path) -> str:
    with pytest.raises(EcloseError) as caught:
        action(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


CODE = {
    "os:system": {"command": "touch PWNED"},
    "subprocess:getoutput": {"cmd": "touch PWNED"},
    "evil:make_net": {},
    "nets:make_net": {},
    "here.evil:make_net": {},
    "../evil:make_net": {},
}


@pytest.mark.parametrize("reference", CODE)
@pytest.mark.parametrize("entry", ENTRIES)
def test_code_that_a_file_names_is_neither_imported_nor_called(
    project: Path, outside: Path, entry: str, reference: str
) -> None:
    folder = foreign(project, entry)
    name_code(folder, reference, CODE[reference])
    if entry not in BUILDING:
        ENTRIES[entry](folder)
        return
    module = reference.partition(":")[0]
    assert refusal(ENTRIES[entry], folder) == (
        f"a file names the code '{reference}' (module {module}), which eclose neither imports nor calls by itself: if "
        f"you know that code, agree with --backbone {reference} (in Python backbone=, also as an object), or with "
        "--trust (trust=True) to all code that the files name"
    )


@pytest.mark.parametrize("entry", ["resume", "recipe"])
def test_baselines_are_code_too(project: Path, outside: Path, entry: str) -> None:
    folder = foreign(project, entry)
    replace(folder / "config.toml", 'name = "nets:make_net"', 'name = "resnet"')
    replace(folder / "config.toml", "baselines = []", 'baselines = ["evil:make_net"]')
    for file in (folder / "genotype.json", *folder.glob("trials/*")):
        file.unlink() if file.is_file() else shutil.rmtree(file)
    (folder / "trials.sqlite").unlink()
    assert "names the code 'evil:make_net'" in refusal(ENTRIES[entry], folder)


@pytest.mark.parametrize("entry", BUILDING)
def test_trust_calls_no_more_than_what_makes_networks(project: Path, outside: Path, entry: str) -> None:
    folder = foreign(project, entry)
    name_code(folder, "os:system", CODE["os:system"])
    text = refusal(partial(ENTRIES[entry], trust=True), folder)
    assert text.startswith("backbone 'os:system' is a builtin_function_or_method, which is not called: ")


@pytest.mark.parametrize("entry", BUILDING)
def test_trust_does_not_reach_into_the_working_directory(project: Path, outside: Path, entry: str) -> None:
    folder = foreign(project, entry)
    text = refusal(partial(ENTRIES[entry], trust=True), folder)
    assert "the working directory is searched only for what you type: --backbone nets:make_net" in text


class TestConsent:
    """What the user agrees to works."""

    @pytest.fixture(autouse=True)
    def _where_the_code_is(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(project)
        sys.modules.pop("nets", None)

    def test_typed(self, project: Path) -> None:
        folder = foreign(project, "load")
        assert isinstance(library.load(folder, backbone="nets:make_net"), nn.Module)
        assert "names the code 'nets:make_net'" in refusal(library.load, folder)  # it was for that call only
        again = library.retrain(folder, epochs=1, out=folder / "again", backbone="nets:make_net")
        assert isinstance(again.model, nn.Module)

    def test_an_object(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def make(width: int = 4) -> nn.Module:
            scope: dict[str, Any] = {}
            exec(NETS, scope)
            return scope["make_net"](width)

        folder = foreign(project, "resume")
        result = library.resume(folder, backbone=make)
        assert isinstance(result.model, nn.Module)
        assert "nets" not in sys.modules

    def test_trust(self, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(str(project))
        assert isinstance(library.load(foreign(project, "load"), trust=True), nn.Module)

    def test_other_code_than_typed(self, project: Path) -> None:
        folder = foreign(project, "load")
        name_code(folder, "os:system", CODE["os:system"])
        text = refusal(partial(library.load, backbone="nets:make_net"), folder)
        assert text.startswith("a file names the code 'os:system'")

    def test_a_run_without_code_takes_none(self, tmp_path: Path) -> None:
        result = plain_search(backbone="resnet", out=tmp_path / "run")
        with pytest.raises(ConfigError, match="was made with the backbone 'resnet' of eclose: leave backbone out"):
            library.load(result.run, backbone=nn.Identity())


@pytest.fixture
def another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process forgets what it began; the cache remembers."""
    monkeypatch.setattr(origins, "_BEGUN", {})
    sys.modules.pop("nets", None)


@pytest.mark.usefixtures("another_process", "outside")
class TestRunsBegunHere:
    """Comfortable from anywhere, also where somebody planted a module of the same name."""

    @pytest.mark.parametrize("entry", [name for name in ENTRIES if name not in ("recipe", "resume", "retrain")])
    def test_need_nothing(self, project: Path, entry: str) -> None:
        ENTRIES[entry](project / "run")
        shutil.rmtree(project / "exported", ignore_errors=True)

    def test_retrained_and_exported(self, project: Path, tmp_path: Path) -> None:
        again = library.retrain(project / "run", epochs=1, out=tmp_path / "again")
        library.export(again.run, tmp_path / "bundle")
        origins._BEGUN.clear()
        sys.modules.pop("nets", None)
        assert isinstance(library.load(tmp_path / "bundle"), nn.Module)

    def test_killed_at_any_moment(self, project: Path, tmp_path: Path) -> None:
        class Killed(BaseException):
            pass

        for number, moment in enumerate(("run", "epoch", "trial_end", "result")):

            def kill(event: str, fields: dict[str, Any], moment: str = moment) -> None:
                if event == moment:
                    raise Killed

            run = tmp_path / str(number)
            with pytest.raises(Killed):
                library.retrain(project / "run", epochs=1, out=run, listeners=[kill])
            origins._BEGUN.clear()
            sys.modules.pop("nets", None)
            assert isinstance(library.resume(run).model, nn.Module)

    def test_moved(self, project: Path, tmp_path: Path) -> None:
        library.export(project / "run", tmp_path / "bundle")
        (tmp_path / "bundle").rename(tmp_path / "moved")
        assert "names the code 'nets:make_net'" in refusal(library.load, tmp_path / "moved")

    @pytest.mark.parametrize(
        ("file", "old", "new"),
        [
            ("config.toml", "seed = 0", "seed = 1"),
            ("genotype.json", "nets:make_net", "os:system"),
            ("genotype.json", '"options": {}', '"options": {"width": 5}'),
        ],
    )
    def test_edited(self, project: Path, tmp_path: Path, file: str, old: str, new: str) -> None:
        library.export(project / "run", tmp_path / "bundle")
        replace(tmp_path / "bundle" / file, old, new)
        assert "names the code" in refusal(library.load, tmp_path / "bundle")


def test_workers_get_the_consent(project: Path) -> None:
    """A worker is another process: it is told what was agreed to."""
    folder = foreign(project, "resume")
    run = Run.open(folder)
    task = load_task(run.config.task, lambda done, total: None)
    with consenting(Consent({"nets:make_net": str(project)})):
        search, strategy = Search.of(run.config, task), make_strategy(run.config)
        orders = orders_for(Driver(run, search, strategy, World(), Events(), lambda: False).runner, threads=1)
    orders = dataclasses.replace(orders, consent=pickle.loads(pickle.dumps(orders.consent)))
    (trial,) = run.table.all()
    genotype = Genotype.load(run.trial_folder(0), "asked")
    row = Worker(orders).train(trial, genotype).row
    assert row is not None
    assert row.state == "done"
    with pytest.raises(ConfigError, match="names the code 'nets:make_net'"):
        Worker(dataclasses.replace(orders, consent=Consent())).train(trial, genotype)


def test_a_cache_that_cannot_be_written_breaks_nothing(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ECLOSE_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.chdir(project)
    result = plain_search(backbone="nets:make_net", out=tmp_path / "run")
    assert isinstance(result.model, nn.Module)
    monkeypatch.setattr(origins, "_BEGUN", {})
    assert "names the code 'nets:make_net'" in refusal(library.load, result.run)
    assert isinstance(library.load(result.run, backbone="nets:make_net"), nn.Module)


LINKS = {
    "report.html": "precious.txt",
    "events.jsonl": "precious.txt",
    "weights.safetensors": "weights.safetensors",
    "result.json": "precious.txt",
    ".lock": "precious.sqlite",
    "trials.sqlite": "precious.sqlite",
    "study.sqlite": "precious.sqlite",
    "tensorboard": ".",
    "trials/0": ".",
    "trials/1": "not/there/yet",
}


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("entry", [name for name in ENTRIES if name != "recipe"])
def test_links_out_of_a_folder_are_not_followed(project: Path, outside: Path, entry: str, link: str) -> None:
    folder = foreign(project, entry)
    place = folder / link
    shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
    place.symlink_to(outside / LINKS[link])
    target = os.path.realpath(place)
    assert refusal(ENTRIES[entry], folder) == (
        f"{place} is a link out of its run folder, to {target}: put what is meant in its place "
        "(this run did not begin here, so it must keep to its folder)"
    )


def journal(path: Path) -> None:
    path.write_bytes(bytes(512) + bytes.fromhex("d9d505f920a163d7"))


def test_hard_links_pipes_and_journals(project: Path, outside: Path) -> None:
    for name, make, says in (
        ("events.jsonl", lambda path: path.hardlink_to(outside / "precious.txt"), "is the same file as another one"),
        ("events.jsonl", os.mkfifo, "is neither a file nor a folder: delete it"),
        ("trials.sqlite-journal", journal, "is a journal of SQLite that names another file: delete it"),
    ):
        folder = foreign(project, "resume")
        (folder / name).unlink(missing_ok=True)
        make(folder / name)
        assert says in refusal(library.resume, folder)


def test_links_inside_of_a_folder_and_links_of_ones_own_are_fine(project: Path, tmp_path: Path) -> None:
    folder = foreign(project, "show")
    (folder / "latest").symlink_to("trials/0")
    shown(folder)
    library.export(project / "run", tmp_path / "bundle")
    (tmp_path / "bundle" / "weights.safetensors").rename(tmp_path / "elsewhere")
    (tmp_path / "bundle" / "weights.safetensors").symlink_to(tmp_path / "elsewhere")
    assert isinstance(library.load(tmp_path / "bundle"), nn.Module)


@pytest.mark.parametrize("entry", ["resume", "report", "show", "load of a trial"])
def test_the_table_names_no_paths(project: Path, outside: Path, entry: str) -> None:
    folder = foreign(project, entry)
    (folder / "trials.sqlite").rename(folder / "old")
    with sqlite3.connect(folder / "trials.sqlite") as new, sqlite3.connect(folder / "old") as old:
        columns = [row[1] for row in old.execute("PRAGMA table_info(trials)")]
        row = list(old.execute("SELECT * FROM trials").fetchone())
        row[columns.index("number")] = os.path.relpath(outside, folder / "trials")
        new.execute(f"CREATE TABLE trials ({', '.join(columns)})")
        new.execute(f"INSERT INTO trials VALUES ({', '.join('?' * len(row))})", row)
    new.close()
    old.close()
    text = refusal(ENTRIES[entry], folder)
    assert text.startswith(f"the trial table {folder / 'trials.sqlite'} cannot be used ('number' is '../")


@pytest.mark.parametrize("entry", ["resume", "report", "show"])
def test_the_table_does_nothing_by_itself(project: Path, outside: Path, entry: str) -> None:
    folder = foreign(project, entry)
    with sqlite3.connect(folder / "trials.sqlite") as table:
        table.execute("CREATE TRIGGER bad AFTER INSERT ON trials BEGIN DELETE FROM trials; END")
    table.close()
    assert "it has a trigger 'bad'" in refusal(ENTRIES[entry], folder)


@pytest.fixture
def host() -> Iterator[tuple[str, list[Any]]]:
    """An address that listens, and who called."""
    calls: list[Any] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        ended = threading.Event()

        def listen() -> None:
            while not ended.is_set():
                try:
                    calls.append(server.accept()[1])
                except TimeoutError:
                    continue

        thread = threading.Thread(target=listen)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}", calls
        ended.set()
        thread.join()


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_run_that_names_another_host(project: Path, outside: Path, host: tuple[str, list[Any]], entry: str) -> None:
    address, calls = host
    folder = foreign(project, entry)
    replace(folder / "config.toml", 'ray_address = ""', f'ray_address = "{address}"')
    replace(folder / "config.toml", "workers = 1", "workers = 2")
    if entry in ("resume", "recipe"):
        origin = folder if entry == "resume" else folder / "recipe.toml"
        without = "--ray-address ''" if entry == "resume" else "--set run.ray_address="
        assert refusal(ENTRIES[entry], folder) == (
            f"{origin} names the Ray cluster {address}, to which eclose does not connect by itself: "
            f"agree with --ray-address {address}, or stay on this machine with {without}"
        )
    elif entry in BUILDING:
        refusal(ENTRIES[entry], folder)
    else:
        ENTRIES[entry](folder)
    assert calls == []


def test_workers_here_instead_of_on_another_host(project: Path, host: tuple[str, list[Any]]) -> None:
    address, calls = host
    folder = foreign(project, "resume")
    replace(folder / "config.toml", 'ray_address = ""', f'ray_address = "{address}"')
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        library.resume(folder, workers=1, backbone="nets:make_net")
    assert calls == []


def header(shape: tuple[int, ...], kind: str = "<f4") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape!r}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def packed(path: Path, size: int) -> Path:
    """An array of zeros, ``size`` bytes of them in a thousandth of that."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as file:
        file.write(header((size // 4 // 16, 2, 8)))
        for _ in range(size // 2**20):
            file.write(bytes(2**20))
    return path


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
@pytest.mark.parametrize("shape", [(10**12, 2, 8), (2**62, 2**62, 2), (3, 2, 8), (-1, 2, 8)])
def test_arrays_that_claim_more_than_their_file_holds(
    project: Path, tmp_path: Path, shape: tuple[int, ...], suffix: str
) -> None:
    path, content = tmp_path / f"a{suffix}", header(shape) + bytes(64)
    if suffix == ".npy":
        path.write_bytes(content)
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("x.npy", content)
    with pytest.raises(TaskError, match="is not a readable array"):
        library.predict(project / "run", path)


def test_a_decompression_bomb(project: Path, tmp_path: Path) -> None:
    path = packed(tmp_path / "bomb.npz", 300 * 2**20)
    assert path.stat().st_size < 2**20
    with pytest.raises(TaskError, match=r"its \d+ bytes would become 3145\d+, so it is not unpacked"):
        library.predict(project / "run", path)
    with pytest.raises(TaskError, match="so it is not unpacked"):
        library.search(data=path, out=tmp_path / "run")
    assert not (cache_folder() / "unpacked").exists()


def test_weights_that_claim_more_than_their_file_holds(project: Path, tmp_path: Path) -> None:
    library.export(project / "run", tmp_path / "bundle")
    about = json.dumps({"a": {"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4 * 10**12]}}).encode()
    (tmp_path / "bundle" / "weights.safetensors").write_bytes(struct.pack("<Q", len(about)) + about + bytes(64))
    with pytest.raises(RunError, match="is damaged"):
        library.load(tmp_path / "bundle")


def test_weights_larger_than_the_memory(project: Path, tmp_path: Path) -> None:
    library.export(project / "run", tmp_path / "bundle")
    size = 2**43
    about = json.dumps({"a": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    try:
        with open(tmp_path / "bundle" / "weights.safetensors", "wb") as file:
            file.write(struct.pack("<Q", len(about)) + about)
            file.truncate(8 + len(about) + size)  # holes take no room on the disk
    except OSError:
        pytest.skip("no files of that size here")
    with pytest.raises(RunError, match="is larger than the memory of this machine"):
        library.load(tmp_path / "bundle")


UNUSUAL = {
    "deep nesting": "[" * 100_000 + "]" * 100_000,
    "many digits": "1" + "0" * 5000,
    "a huge number": "1" + "0" * 400,
    "a huge float": "1e999",
    "not a number": "NaN",
    "infinity": "-Infinity",
    "negative": "-4",
    "a list": "[4]",
    "a text": '"4"',
}


@pytest.mark.parametrize("value", UNUSUAL)
@pytest.mark.parametrize("place", ["choices", "options", "signature", "table"])
def test_unusual_json_costs_one_line(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, value: str
) -> None:
    monkeypatch.chdir(project)
    folder, text = foreign(project, "load"), UNUSUAL[value]
    if place == "table":
        with sqlite3.connect(folder / "trials.sqlite") as table:
            table.execute("UPDATE trials SET genotype = ?", [text])
        table.close()
        refusal(shown, folder)
        return
    if place == "choices":
        replace(folder / "genotype.json", '"options": {}', f'"options": {text}')
    elif place == "options":
        replace(folder / "genotype.json", '"options": {}', f'"options": {{"width": {text}}}')
    else:
        replace(folder / "result.json", '"outputs": 3', f'"outputs": {text}')
    refusal(partial(library.load, backbone="nets:make_net"), folder)


@pytest.mark.parametrize("layout", [3, [], {"classes": 3}, {"columns": "x"}])
def test_an_unusual_layout_costs_one_line(project: Path, layout: Any) -> None:
    folder = foreign(project, "predict")
    edit(folder / "result.json", lambda result: {**result, "layout": layout})
    assert "'layout' is of the wrong type" in refusal(predicted, folder)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("about", "x", "'about' is of the wrong type"),
        ("versions", "x", "'versions' is of the wrong type"),
        ("unbeaten", 3, "'unbeaten' is of the wrong type"),
        ("metric", {}, "'metric' has no name or no goal"),
        ("valid", "x", "'valid' of nets:make_net is no number"),
        ("parameters", [], "'parameters' of nets:make_net is no number"),
        ("baselines", [3], "'baselines' has a row without a name"),
        ("baselines", [{"name": "b", "test": "x"}], "'test' of b is no number"),
        ("baselines", [{"name": "b", "valid": 0.5}], "'test' of b is missing"),
        ("trials", "x", "'trials' is missing or of the wrong type"),
        ("signature", {"kind": "classification"}, "'sizes'"),
        ("explanation", "x", "'explanation' is of the wrong type"),
    ],
)
def test_an_unusual_result_costs_one_line(project: Path, key: str, value: Any, says: str) -> None:
    folder = foreign(project, "report")
    edit(folder / "result.json", lambda result: {**result, key: value})
    for action in (library.report, library.load, library.resume):
        assert f"result.json is damaged ({says}): delete it" in refusal(action, folder)


@pytest.mark.parametrize(
    ("explanation", "says"),
    [
        ([3], "'3' is no Section"),
        ([{"title": "x", "table": {"headings": ["a"], "rows": [[1, 2]]}}], "a row that is not as long as the headings"),
        ([{"title": "x", "sentences": ["y"] * 70_000}], "it has more than 65536 values"),
        ([{"title": "x", "pictures": [{"title": "y", "plots": [{"title": "z", "lines": []}]}]}], "'first' is missing"),
    ],
)
def test_an_unusual_explanation_costs_one_line(project: Path, explanation: Any, says: str) -> None:
    folder = foreign(project, "report")
    edit(folder / "result.json", lambda result: {**result, "explanation": explanation})
    for action in (library.report, library.explain):
        assert f"result.json is damaged (explanation: {says}" in refusal(action, folder)


@pytest.mark.parametrize(("column", "value"), [("history", "[1]"), ("parents", "[{}]")])
def test_an_unusual_table_costs_one_line(project: Path, column: str, value: str) -> None:
    folder = foreign(project, "report")
    with sqlite3.connect(folder / "trials.sqlite") as table:
        table.execute(f"UPDATE trials SET {column} = ?", [value])
    table.close()
    for action in (library.report, shown):
        assert f"cannot be used ('{column}' is " in refusal(action, folder)


def test_the_page_of_a_run_with_an_unusual_checkpoint(project: Path) -> None:
    folder = foreign(project, "resume")
    with sqlite3.connect(folder / "trials.sqlite") as table:
        table.execute("UPDATE trials SET state = 'running'")
    table.close()
    state = {"state": "[" * 100_000 + "]" * 100_000}
    save_tensors(folder / "trials" / "0" / "checkpoint.safetensors", {"a": torch.zeros(1)}, state)
    assert library.report(folder).is_file()


STEERS = "\x1b]0;title\x07\x1b[2J[red]\r\x9b"


@pytest.mark.parametrize("command", ["show", "resume", "explain"])
def test_names_do_not_steer_the_terminal(
    project: Path, outside: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    folder = foreign(project, "a finished run")
    with sqlite3.connect(folder / "trials.sqlite") as table:
        table.execute("UPDATE trials SET name = ?, state = 'failed', reason = ?", [STEERS, STEERS])
    table.close()
    edit(folder / "result.json", lambda result: {**result, "name": STEERS, "task": STEERS, "unbeaten": [STEERS]})
    told = [{"title": STEERS, "sentences": [STEERS], "table": {"headings": [STEERS], "rows": [[STEERS]]}}]
    edit(folder / "result.json", lambda result: {**result, "explanation": told})
    monkeypatch.setattr(sys, "argv", ["eclose", command, str(folder)])
    assert main() == 0
    shown = capsys.readouterr().out
    assert "?[2J[red]" in shown
    assert all(line.isprintable() for line in shown.split("\n"))


def test_from_the_command_line(project: Path, outside: Path) -> None:
    """A planted module, a foreign run and one's own, in processes of their own."""
    np.save(outside.parent / "x.npy", torch.zeros(2, 2, 8).numpy())
    arguments = ("predict", project / "run", outside.parent / "x.npy", "--out", outside.parent / "y.npz")
    done = eclose(*arguments, cwd=Path.cwd())
    assert done.returncode == 0, done.stderr
    folder = foreign(project, "predict")
    done = eclose("predict", folder, *arguments[2:], cwd=Path.cwd())
    assert done.returncode == 2
    assert done.stderr.startswith("eclose: a file names the code 'nets:make_net' (module nets), ")
    assert done.stderr.count("\n") == 1
    done = eclose("predict", folder, *arguments[2:], "--backbone", "nets:make_net", cwd=project)
    assert done.returncode == 0, done.stderr
