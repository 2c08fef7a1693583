import math

import numpy as np
import pytest
import torch

from eclose.config import TaskSection
from eclose.errors import TaskError
from eclose.runs import cache_folder
from eclose.signature import Signature
from eclose.tasks import load_task, read_arrays
from eclose.tasks.physics import burgers, darcy, plucked_string

TINY = {"points": 16, "train": 5, "val": 2, "test": 3}
MODULES = {"burgers": burgers, "darcy": darcy, "plucked-string": plucked_string}
SIGNATURES = {
    "burgers": Signature("dense", 1, (16,), 1),
    "darcy": Signature("dense", 1, (16, 16), 1),
    "plucked-string": Signature("dense", 1, (16,), 1),
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ECLOSE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def calls(monkeypatch):
    """What the solvers are asked for; they answer with numbered samples."""
    made = []

    def fake(axes):
        def generate(count, points, *, seed, progress=None, **setting):
            made.append({"count": count, "points": points, "seed": seed, **setting})
            x = torch.arange(float(count)).view(-1, *[1] * axes).expand(-1, *[points] * axes).double()
            progress(count, count)
            return x + seed, -x

        return generate

    monkeypatch.setattr(burgers, "generate", fake(1))
    monkeypatch.setattr(darcy, "generate", fake(2))
    monkeypatch.setattr(plucked_string, "generate", fake(1))
    return made


def load(name, progress=lambda done, total: None, **options):
    return load_task(TaskSection(name=name, options={**TINY, **options}), progress)


def cached():
    return sorted((cache_folder() / "generated").iterdir())


@pytest.mark.parametrize("name", MODULES)
def test_solved_once_and_kept(name, monkeypatch):
    told = []
    task = load(name, lambda done, total: told.append((done, total)))
    assert task.signature == SIGNATURES[name]
    assert {part: len(split) for part, split in task.splits.items()} == {"train": 5, "val": 2, "test": 3}
    assert told[-1] == (10, 10)
    (file,) = cached()
    before = file.stat().st_mtime_ns

    def again(*args, **kwargs):
        pytest.fail("generated again")

    monkeypatch.setattr(MODULES[name], "generate", again)
    second = load(name)
    assert cached() == [file]
    assert file.stat().st_mtime_ns == before
    for part, split in task.splits.items():
        for a, b in zip(split.all(), second.splits[part].all(), strict=True):
            assert torch.equal(a, b)
            assert a.dtype == torch.float32


def test_the_real_solver_in_single_precision():
    task = load("burgers", viscosity=0.05)
    x, y = burgers.generate(10, 16, seed=0, viscosity=0.05)
    got = [torch.cat([split.all()[i] for split in task.splits.values()])[:, 0] for i in (0, 1)]
    assert torch.equal(got[0], x.float())
    assert torch.equal(got[1], y.float())
    assert task.about["viscosity"] == 0.05
    assert task.about["samples"] == {"train": 5, "val": 2, "test": 3}


@pytest.mark.parametrize("name", MODULES)
def test_splits_are_disjoint_and_complete(calls, name):
    task = load(name)
    numbers = {part: split.all()[0].flatten(1)[:, 0].tolist() for part, split in task.splits.items()}
    assert numbers == {"train": [0, 1, 2, 3, 4], "val": [5, 6], "test": [7, 8, 9]}
    for split in task.splits.values():
        x, y = split.all()
        assert torch.equal(x, -y)


@pytest.mark.parametrize(
    "options",
    [{"seed": 1}, {"points": 8}, {"train": 6}, {"viscosity": 0.02}, {"time": 0.5}, {"constant_mode": False}],
)
def test_every_option_that_matters_makes_its_own_file(calls, options):
    load("burgers")
    load("burgers", **options)
    assert len(cached()) == len(calls) == 2
    load("burgers")
    load("burgers", **options)
    assert len(calls) == 2


def test_only_the_number_of_functions_matters_not_their_use(calls):
    load("burgers")
    task = load("burgers", train=3, val=4)
    assert len(calls) == 1
    assert task.val.all()[0][:, 0, 0].tolist() == [3, 4, 5, 6]


def test_options_reach_the_solver(calls):
    load("burgers", seed=3, viscosity=0.5, time=2, constant_mode=False)
    load("darcy", seed=4)
    assert calls == [
        {"count": 10, "points": 16, "seed": 3, "viscosity": 0.5, "time": 2.0, "constant_mode": False},
        {"count": 10, "points": 16, "seed": 4},
    ]


def test_an_interruption_leaves_no_file(calls):
    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load("burgers", stop)
    assert not (cache_folder() / "generated").exists()


def test_a_damaged_file_is_named(calls):
    load("burgers")
    (file,) = cached()
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(TaskError) as error:
        load("burgers")
    assert str(error.value).startswith(f"delete the cached data {file}, it is damaged: {file} is not a readable .npz")
    file.unlink()
    load("burgers")
    assert len(read_arrays(file)["x"]) == 10


@pytest.mark.parametrize("part", ["train", "val", "test"])
@pytest.mark.parametrize("name", MODULES)
def test_every_split_needs_a_sample(calls, name, part):
    with pytest.raises(TaskError) as error:
        load(name, **{part: 0})
    sizes = {"train": 5, "val": 2, "test": 3, part: 0}
    assert str(error.value) == f"task {name}: train, val and test must be at least 1, got {sizes}"
    assert calls == []


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("burgers", {"points": 0}, "task burgers: points is 0, but must lie between 2 and 8192"),
        ("burgers", {"points": -3}, "task burgers: points is -3, but must lie between 2 and 8192"),
        ("darcy", {"points": 1}, "task darcy: points is 1, but must lie between 2 and 8192"),
        ("darcy", {"points": 2}, "task darcy: 2 points a side leave nothing between the boundaries; 3 is the least"),
        (
            "burgers",
            {"viscosity": 0.0},
            "task burgers: viscosity 0.0 must be positive and time 1.0 must not be negative",
        ),
        ("burgers", {"time": -1.0}, "task burgers: viscosity 0.01 must be positive and time -1.0 must not be negative"),
        ("burgers", {"viscosity": math.nan}, "task burgers: viscosity must be finite, got nan"),
        ("burgers", {"time": math.inf}, "task burgers: time must be finite, got inf"),
        ("burgers", {"seed": -1}, "task burgers: seed must lie between 0 and 2**63 - 1, got -1"),
        ("darcy", {"seed": 2**64}, f"task darcy: seed must lie between 0 and 2**63 - 1, got {2**64}"),
    ],
)
def test_bad_options(name, options, text):
    with pytest.raises(TaskError) as error:
        load(name, **options)
    assert str(error.value) == text
    assert not (cache_folder() / "generated").exists()


def test_mapped_from_the_cache(calls, monkeypatch):
    monkeypatch.setattr("eclose.tasks.own_data.files.LARGE", 0)
    task = load("darcy")
    assert task.test.all()[0].flatten(1)[:, 0].tolist() == [7, 8, 9]
    (file,) = cached()
    assert isinstance(read_arrays(file)["x"], np.memmap)
