import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from eclose.config import Config, TaskSection
from eclose.errors import ConfigError, EcloseError, TaskError
from eclose.tasks import complete_task, load_task, tasks
from eclose.tasks.own_data import files

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(30, 8)).astype(np.float32), np.arange(30) % 3


def quiet(done, total):
    pass


def load(data=None, **section):
    return load_task(TaskSection(**section), quiet, data)


def refused(data=None, error_type=TaskError, **section):
    with pytest.raises(error_type) as error:
        load(data, **section)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.fixture
def npz(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, x=X, y=Y)
    return path


# A user's file -------------------------------------------------------------------------------------------------


def test_file(npz):
    task = from_file(npz)
    assert task.name == "mine"
    assert task.signature.kind == "classification"
    rows = task.train.rows.numpy()
    np.testing.assert_array_equal(task.train.all()[0][:, 0].numpy(), X[rows])


def from_file(path, **section):
    return load_task(TaskSection(data=str(path), **section), quiet)


def refused_file(path, **section):
    with pytest.raises(EcloseError) as error:
        from_file(path, **section)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_folder_of_npy(tmp_path, npz):
    folder = tmp_path / "mine"
    folder.mkdir()
    np.save(folder / "x.npy", X)
    np.save(folder / "y.npy", Y)
    task = from_file(folder)
    assert task.name == "mine"
    assert torch.equal(task.train.all()[0], from_file(npz).train.all()[0])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("dtype", ["f4", ">f4", "u1", "u2", ">i2", "?", "f16"])
@pytest.mark.parametrize("fortran", [False, True])
def test_mapped_data_is_the_same_data(tmp_path, monkeypatch, save, dtype, fortran):
    x = (RNG.normal(size=(20, 3, 6)) * 20 + 100).astype(dtype)
    save(tmp_path / "a.npz", x=np.asfortranarray(x) if fortran else x, y=Y[:20])
    read = from_file(tmp_path / "a.npz", permuted=True)
    monkeypatch.setattr(files, "LARGE", 0)
    mapped = from_file(tmp_path / "a.npz", permuted=True)
    assert mapped.signature == read.signature
    assert torch.equal(mapped.scale.x_mean, read.scale.x_mean)
    for name in read.splits:
        for a, b in zip(mapped.splits[name].all(), read.splits[name].all(), strict=True):
            assert torch.equal(a, b)
            assert a.dtype == b.dtype


NO_X = " has no array 'x' or 'x_train' (found: {}); name them x and y, as in np.savez(path, x=..., y=...)"


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({}, NO_X.format("none")),
        ({"data": X, "labels": Y}, NO_X.format("data, labels")),
        ({"data": X, "y": Y}, NO_X.format("data, y")),
        ({"x": X}, ": 'x' is there but 'y' is missing: give both or none"),
        ({"x": X, "y": Y[:9]}, ": 'x' has 30 samples, 'y' has 9: they must be as many"),
        ({"x": X * np.nan, "y": Y}, ": 'x' has NaN or infinite values, first in sample 0: remove or fill them"),
        ({"x": X.astype(str), "y": Y}, ": 'x' holds text such as '0"),
        ({"x": X.astype(complex), "y": Y}, ": 'x' is complex: stack real and imaginary parts as channels"),
    ],
)
def test_errors_name_the_file(tmp_path, arrays, text):
    path = tmp_path / "a.npz"
    np.savez(path, **arrays)
    assert refused_file(path).startswith(f"{path}{text}")


def test_errors_of_files(tmp_path):
    assert refused_file(tmp_path / "none.npz") == f"no such file: {tmp_path / 'none.npz'}"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert refused_file(empty) == str(empty) + NO_X.format("none")
    np.save(empty / "features.npy", X)
    assert "(found: features)" in refused_file(empty)
    text = tmp_path / "text.npz"
    text.write_text("1,2,3")
    assert refused_file(text).startswith(f"{text} is not a readable .npz file (File is not a zip file): write one with")
    np.save(tmp_path / "x.npy", X)
    wanted = f"{tmp_path / 'x.npy'}: 'x' is there but 'y' is missing: give both or none"
    assert refused_file(tmp_path / "x.npy") == wanted


# Python objects ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        {"x": X, "y": Y},
        {"x": torch.from_numpy(X), "y": torch.from_numpy(Y)},
        {"x": X.tolist(), "y": Y.tolist()},
        TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)),
        {"train": TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))},
    ],
)
def test_objects(data):
    task = load(data)
    assert task.name == "data"
    wanted = load({"x": X, "y": Y})
    for name, split in wanted.splits.items():
        torch.testing.assert_close(task.splits[name].all()[0].float(), split.all()[0])
        assert torch.equal(task.splits[name].all()[1], split.all()[1])


@pytest.mark.parametrize(
    ("data", "name"),
    [((X, Y), "tuple"), ([X, Y], "list"), (X, "ndarray"), (torch.zeros(3), "Tensor"), (3, "int")],
)
def test_objects_that_are_no_data(data, name):
    wanted = f"data is a {name}: hand in a file, a mapping such as {{'x': x, 'y': y}}, a data frame or a Dataset"
    assert refused(data) == wanted


def test_data_given_twice(npz):
    wanted = "data is given twice: as an object and as 'digits'; give one"
    assert refused({"x": X, "y": Y}, ConfigError, name="digits") == wanted
    section = TaskSection(name="digits", data=str(npz))
    for action in (complete_task, lambda s: load_task(s, quiet)):
        with pytest.raises(ConfigError) as error:
            action(section)
        assert str(error.value) == f"--task digits and --data {npz}: give one of them"


def test_no_task():
    wanted = "no task: give --task NAME or --data FILE (`eclose show tasks` lists the names)"
    assert refused(None, ConfigError) == wanted


# Settings ------------------------------------------------------------------------------------------------------


def test_reading_is_taken_from_the_section():
    data = {"x": X, "y": Y}
    assert load(data, kind="regression").signature.kind == "regression"
    assert load(data, standardise=False).scale is None
    assert load({"x": X[:, None].repeat(4, 1), "y": Y}, axes=2).signature.sizes == (4, 8)
    assert load({"x": np.abs(X).astype(int), "y": Y}, tokens=True).signature.tokens


def test_modifiers():
    data = {"x": X, "y": Y}
    task = load(data, permuted=True, permuted_seed=3, subset=6, subset_eval=2)
    assert task.about == {"samples": {"train": 6, "val": 2, "test": 2}, "permuted": 3}
    rows = task.train.rows.numpy()
    order = torch.randperm(8, generator=torch.Generator().manual_seed(3)).numpy()
    np.testing.assert_array_equal(task.train.all()[0][:, 0].numpy(), X[rows][:, order])
    torch.testing.assert_close(task.scale.x_mean, torch.from_numpy(X[rows]).mean()[None])


def test_complete_task_writes_every_option_out():
    section = complete_task(TaskSection(name="burgers", options={"points": 64}))
    assert section.options["points"] == 64
    assert section.options.keys() == tasks["burgers"].options.keys()
    assert complete_task(section) == section
    assert complete_task(TaskSection()) == TaskSection()


@pytest.mark.parametrize(
    ("section", "text"),
    [
        (TaskSection(name="minst"), "unknown task 'minst'; did you mean 'mnist'? known: "),
        (TaskSection(name="digits", options={"points": 3}), "task: 'digits' has no option 'points'; it has no options"),
        (
            TaskSection(name="mnist", options={"vla": 3}),
            "task: 'mnist' has no option 'vla'; did you mean 'val'? known: val",
        ),
        (TaskSection(name="mnist", options={"val": "x"}), "task.val is 'x', but must be a whole number"),
        (TaskSection(data="a.npz", options={"points": 3}), "task.points is no setting of a user's own data"),
        (
            TaskSection(options={"lable": "y"}),
            "task.lable is no setting of a user's own data; did you mean 'label'? known: ",
        ),
    ],
)
def test_bad_options(section, text):
    for action in (complete_task, lambda s: load_task(s, quiet)):
        with pytest.raises(ConfigError) as error:
            action(section)
        assert str(error.value).startswith(text)


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ({"kind": "regression"}, "task.kind is 'regression', but that of task 'digits' is always 'classification'"),
        ({"tokens": True}, "task.tokens is True, but that of task 'digits' is always False"),
        ({"axes": 1}, "task.axes is 1, but that of task 'digits' is always 2"),
    ],
)
def test_a_named_task_is_read_in_one_way(setting, text):
    assert refused(None, ConfigError, name="digits", **setting) == text


def test_what_a_run_folder_says_about_a_named_task_is_accepted():
    config = Config().with_values({"task.name": "digits", "task.kind": "classification", "task.axes": 2})
    section = dataclasses.replace(config.task, subset=20)
    assert len(load_task(section, quiet).train) == 20


def test_a_misspelt_part_is_not_ignored(tmp_path: Path) -> None:
    x, y = np.zeros((9, 4), np.float32), np.arange(9) % 3
    np.savez(tmp_path / "d.npz", x_train=x, y_train=y, x_valid=x, y_valid=y)
    section = TaskSection(data=str(tmp_path / "d.npz"))
    with pytest.raises(TaskError, match=r"has an array 'x_valid'; did you mean 'x_val'\? known: .*; rename it"):
        load_task(section, lambda done, total: None)
