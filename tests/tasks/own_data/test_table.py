"""Tables: which column is what, from text files, parquet and data frames."""

import sys

import numpy as np
import pytest

from eclose.config import TaskSection
from eclose.errors import ConfigError, TaskError
from eclose.signature import Signature
from eclose.tasks import answers, features, load_task, read_table
from eclose.tasks.summary import summary

RNG = np.random.default_rng(0)
N = 30
A, B = RNG.normal(size=N), RNG.integers(0, 9, N)
NAMES = np.array(["cat", "dog", "eel"])[np.arange(N) % 3]


def quiet(done, total):
    pass


def write(path, columns, delimiter=","):
    rows = [list(columns), *zip(*columns.values(), strict=True)]
    path.write_text("\n".join(delimiter.join(map(str, row)) for row in rows) + "\n", encoding="utf-8")
    return path


def read(path, **section):
    return load_task(TaskSection(data=str(path), **section), quiet)


def refused(path, **section):
    with pytest.raises((TaskError, ConfigError)) as error:
        read(path, **section)
    assert "\n" not in str(error.value)
    return str(error.value)


class Frame:
    """What a data frame has in common with others."""

    def __init__(self, columns):
        self._columns = columns
        self.columns = list(columns)

    def __getitem__(self, name):
        return self._columns[name]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv(tmp_path, delimiter):
    path = write(tmp_path / "pets.csv", {"a": A, "b": B, "species": NAMES}, delimiter)
    task = read(path)
    assert task.signature == Signature("classification", 2, (1,), 3)
    assert summary(task) == (
        "pets.csv: classification, 3 classes (cat, dog, eel) in column 'species', a table of 2 columns, "
        "21 / 5 / 4 samples"
    )
    assert task.doubts == ()
    layout = task.layout
    assert (layout.columns, layout.label, layout.channels) == (("a", "b"), "species", "columns")
    rows = task.train.rows.numpy()
    np.testing.assert_allclose(task.train.all()[0][:, 0, 0], A[rows])
    np.testing.assert_allclose(task.scale.x_mean, [A[rows].mean(), B[rows].mean()], rtol=1e-5)
    assert [layout.classes[i] for i in task.train.all()[1]] == NAMES[rows].tolist()


@pytest.mark.parametrize(
    ("columns", "asked", "label"),
    [
        ({"Label": NAMES, "a": A, "y": B}, "", "Label"),
        ({"class": NAMES, "a": A}, "", "class"),
        ({"target": A, "a": A}, "", "target"),
        ({"y": NAMES, "a": A}, "", "y"),
        ({"a": A, "kind": NAMES}, "", "kind"),
        ({"label": NAMES, "a": A, "b": B}, "b", "b"),
    ],
)
def test_which_column_is_learned(tmp_path, columns, asked, label):
    assert read(write(tmp_path / "t.csv", columns), label=asked).layout.label == label


def test_kinds(tmp_path):
    assert read(write(tmp_path / "t.csv", {"a": A, "y": A + B})).signature.kind == "regression"
    assert read(write(tmp_path / "t.csv", {"a": A, "y": B % 3})).signature.kind == "classification"
    assert read(write(tmp_path / "t.csv", {"a": A, "y": B % 3}), kind="regression").signature.kind == "regression"
    task = read(write(tmp_path / "t.csv", {"a": A, "y": [f"{x}.0" for x in B % 3]}))
    assert "whole numbers as floats" in task.doubts[0]
    ids = read(write(tmp_path / "t.csv", {"a": A, "y": [f"{x}_{x}" for x in B % 3]})).layout.classes
    assert ids == ("0_0", "1_1", "2_2")


def test_truth_is_a_label(tmp_path):
    path = write(tmp_path / "t.csv", {"a": A, "b": B > 3, "y": B > 4})
    task = read(path)
    assert task.signature == Signature("classification", 2, (1,), 2)
    assert task.layout.classes == (0, 1)
    assert answers(read_table(path), task.layout).tolist() == (B > 4).tolist()


def test_names_that_are_numbers_elsewhere(tmp_path):
    task = read(write(tmp_path / "t.csv", {"a": A, "y": np.array(["01", "2", "x"])[np.arange(N) % 3]}))
    path = write(tmp_path / "new.csv", {"a": A[:2], "y": ["01", "2"]})
    assert answers(read_table(path, names="y"), task.layout).tolist() == ["01", "2"]
    assert answers(read_table(path), task.layout).tolist() == [1, 2]


def test_lines_that_end_in_a_delimiter(tmp_path):
    task = read(write(tmp_path / "t.csv", {"a": A, "kind": NAMES, "": [""] * N}))
    assert (task.layout.columns, task.layout.label, task.doubts) == (("a",), "kind", ())


def test_decimal_commas_are_refused(tmp_path):
    commas = [f"{a:.2f}".replace(".", ",") for a in A]
    path = write(tmp_path / "t.csv", {"a": commas, "b": B, "y": NAMES}, ";")
    assert refused(path) == f"column 'a' of {path} has decimal commas ({commas[0]}): write them as points"


def test_columns_that_are_left_out_are_named(tmp_path):
    columns = {"": np.arange(N), "id": np.arange(N) + 100, "name": [f"n{i}" for i in range(N)], "a": A, "y": NAMES}
    path = write(tmp_path / "t.csv", columns)
    task = read(path)
    assert task.layout.columns == ("a",)
    assert task.doubts == (
        "left out, since it numbers the rows: '', 'id'; --set task.columns names those to use",
        "left out, since it holds no numbers: 'name'; write it as numbers if it matters",
    )
    chosen = read(path, columns=("id", "a"))
    assert (chosen.layout.columns, chosen.doubts) == (("id", "a"), ())


def test_a_signal_in_a_table(tmp_path):
    wave = np.cumsum(RNG.normal(size=(N, 20)), axis=1)
    path = write(tmp_path / "t.csv", {**{f"t{i}": wave[:, i] for i in range(20)}, "y": NAMES})
    task = read(path)
    assert task.signature.channels == 20
    assert task.doubts[0].startswith(
        "the 20 columns are read as a table, but neighbours are alike; if they are the pos"
    )
    assert read(path, channels="columns").doubts == ()
    assert read(path, channels="none").signature == Signature("classification", 1, (20,), 3)


def test_a_column_of_splits(tmp_path):
    split = np.array(["train"] * 20 + ["validation"] * 4 + ["TEST"] * 6)
    path = write(tmp_path / "t.csv", {"a": A, "Split": split, "y": NAMES})
    task = read(path)
    assert {name: len(part) for name, part in task.splits.items()} == {"train": 20, "val": 4, "test": 6}
    np.testing.assert_allclose(task.test.all()[0][:, 0, 0], A[24:])
    write(path, {"a": A, "split": np.where(split == "TEST", "holdout", split), "y": NAMES})
    assert (
        refused(path) == f"{path}: column 'split' has 'holdout': it must hold train, val and test, or have another name"
    )


@pytest.mark.parametrize("nothing", ["", "NA", "nan", "?", "NULL"])
def test_missing_values(tmp_path, nothing):
    a = [nothing if i in (4, 7) else value for i, value in enumerate(A)]
    text = "column '{}' has no value in row 5 (2 of 30 rows): fill it in, or leave these rows out"
    path = write(tmp_path / "t.csv", {"a": a, "y": NAMES})
    assert refused(path) == f"{path}: {text.format('a')}"
    path = write(tmp_path / "t.csv", {"a": A, "y": a})
    assert refused(path) == f"{path}: {text.format('y')}"
    names = ["" if i in (4, 7) else name for i, name in enumerate(NAMES)]
    path = write(tmp_path / "t.csv", {"a": A, "y": names})
    assert refused(path) == f"{path}: {text.format('y')}"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("a,y\n", "has no rows below its line of column names"),
        ("", "has no rows below its line of column names"),
        ("1,2\n3,4\n", "begins with values: its first line must name the columns, as in a,b,label"),
        ("1,cat\n3,dog\n5,cat\n", "begins with values: its first line must name the columns, as in a,b,label"),
        ("a,y\n1,2\n1\n", "has 1 value in row 2, but 2 columns: mend that row"),
        ("a,a\n1,2\n", "has two columns of one name: rename one"),
        ('a,y\n"1,2\n', "is not a readable table (unexpected end of data): save it as CSV in UTF-8"),
    ],
)
def test_files_that_are_no_tables(tmp_path, content, text):
    path = tmp_path / "t.csv"
    path.write_text(content)
    assert refused(path) == f"{path} {text}"


def test_more_that_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    assert refused(path) == f"no such file: {path}"
    path.write_bytes(b"a,y\n\xff\xfe,1\n")
    assert refused(path).startswith(f"{path} is not a readable table ('utf-8' codec can't decode")
    write(path, {"a": A, "species": NAMES})
    assert refused(path, label="speceis") == f"{path}: no column 'speceis'; did you mean 'species'? known: a, species"
    assert refused(path, kind="dense") == (
        f"{path}: --kind dense needs arrays: a table is for classification or regression"
    )
    assert refused(path, columns=("b",)).startswith(f"{path}: task.columns: no column 'b' to learn from; ")
    write(path, {"name": NAMES, "y": NAMES})
    assert refused(path) == f"{path}: no column of numbers beside 'y' to learn from (columns: name, y)"
    np.savez(tmp_path / "a.npz", x=A[:, None], y=B)
    wanted = "task.label names columns of a table (.csv, .parquet, a data frame): leave it out for arrays"
    assert refused(tmp_path / "a.npz", label="y") == wanted


def test_infinite_values(tmp_path):
    write(tmp_path / "t.csv", {"a": ["inf"] * 6, "b": list(range(6)), "y": ["p", "q"] * 3})
    assert refused(tmp_path / "t.csv").endswith(
        "'x' has NaN or infinite values, first in sample 0: remove or fill them"
    )


def test_frames():
    frame = Frame({"a": A, "b": B.astype(object), "c": B > 3, "y": NAMES.astype(object)})
    task = load_task(TaskSection(), quiet, frame)
    assert task.layout.columns == ("a", "b", "c")
    assert task.layout.classes == ("cat", "dog", "eel")
    parts = {"train": frame, "test": Frame({"y": NAMES[:5], "c": B[:5] > 3, "b": B[:5], "a": A[:5]})}
    task = load_task(TaskSection(), quiet, parts)
    assert len(task.test) == 5
    np.testing.assert_allclose(task.test.all()[0][:, 0, 0], A[:5])
    with pytest.raises(TaskError, match="there is no column 'a', which the network needs"):
        load_task(TaskSection(), quiet, {"train": frame, "test": Frame({"y": NAMES})})
    with pytest.raises(TaskError, match="unknown part 'valid' of the data; known: train, val, test"):
        load_task(TaskSection(), quiet, {"train": frame, "valid": frame})
    holes = Frame({"a": np.array([1.0, None] * 15, dtype=object), "y": NAMES})
    with pytest.raises(TaskError, match="column 'a' has no value in row 2"):
        load_task(TaskSection(), quiet, holes)


def test_signs_of_frames_for_nothing():
    class NAType:
        def __ne__(self, other):
            return self

        def __bool__(self):
            raise TypeError("boolean value of NA is ambiguous")

    holes = Frame({"a": np.array([1, NAType()] * 15, dtype=object), "y": NAMES})
    with pytest.raises(TaskError, match="column 'a' has no value in row 2"):
        load_task(TaskSection(), quiet, holes)
    arrays = np.empty(N, dtype=object)
    arrays[:] = [np.zeros(2)] * N
    task = load_task(TaskSection(), quiet, Frame({"a": A, "b": arrays, "y": NAMES}))
    assert task.doubts == ("left out, since it holds no numbers: 'b'; write it as numbers if it matters",)


def test_new_rows_are_found_by_the_names_of_their_columns(tmp_path):
    task = read(write(tmp_path / "t.csv", {"a": A, "b": B, "y": NAMES}))
    table = read_table(write(tmp_path / "new.csv", {"b": B[:3], "other": A[:3], "a": A[:3]}))
    np.testing.assert_allclose(features(table, task.layout.columns), np.stack([A[:3], B[:3]], 1))
    assert answers(table, task.layout) is None
    table = read_table(write(tmp_path / "new.csv", {"a": A[:3], "b": B[:3], "y": ["cat", "", ""]}))
    assert answers(table, task.layout) is None, "some rows have no answer yet"
    table = read_table(write(tmp_path / "new.csv", {"a": A[:3], "b": B[:3], "y": NAMES[:3]}))
    assert answers(table, task.layout).tolist() == NAMES[:3].tolist()


def test_parquet_needs_pyarrow(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    path.write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert refused(path) == f"reading {path} needs pyarrow: pip install pyarrow, or save the table as .csv"


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table({"a": A, "b": B, "y": NAMES}), path)
    task = read(path)
    assert task.layout.columns == ("a", "b")
    assert task.layout.classes == ("cat", "dog", "eel")
    path.write_bytes(b"PAR1")
    assert refused(path).startswith(f"{path} is not a readable .parquet file (")


def test_pandas():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": A, "b": pandas.array(B, dtype="Int64"), "y": pandas.Categorical(NAMES)})
    task = load_task(TaskSection(), quiet, frame)
    assert (task.layout.columns, task.layout.classes) == (("a", "b"), ("cat", "dog", "eel"))
    frame.loc[3, "b"] = pandas.NA
    with pytest.raises(TaskError, match="column 'b' has no value in row 4"):
        load_task(TaskSection(), quiet, frame)
    arrays = {"x": frame[["a"]], "y": frame["y"]}
    assert load_task(TaskSection(channels="columns"), quiet, arrays).layout.classes == ("cat", "dog", "eel")
