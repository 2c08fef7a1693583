import numpy as np
import pytest

from eclose.signature import Signature
from tests.tasks.published.pieces import gutenberg_folder, load, refused, sizes

FILE = "gutenberg/gutenberg_phrases.npz"


@pytest.fixture
def folder(tmp_path):
    return tmp_path, gutenberg_folder(tmp_path)


def test_letters_down_and_positions_across(folder):
    path, arrays = folder
    task = load("gutenberg", path)
    assert task.signature == Signature("classification", 1, (27, 18), 6)
    assert sizes(task) == {"train": 30, "val": 12, "test": 7}
    for part, split in task.splits.items():
        x, y = split.all()
        letters = arrays[f"x_{part}"]
        assert x.sum() == letters.size
        for n, position in np.ndindex(letters.shape):
            assert x[n, 0, letters[n, position], position] == 1
        assert y.tolist() == arrays[f"y_{part}"].tolist()
        assert split.x.is_contiguous()


def test_refused(folder, tmp_path):
    path, arrays = folder
    np.savez(path / FILE, **{**arrays, "x_val": arrays["x_val"] + np.uint8(1)})
    assert refused("gutenberg", path).startswith(f"{path / FILE}: 'x_val' is uint8 (12, 18), but must be uint8 (n, 18)")
    del arrays["y_test"]
    np.savez(path / FILE, **arrays)
    wanted = f"{path / FILE} has no array 'y_test': it is another file than the task needs"
    assert refused("gutenberg", path) == wanted
    (path / FILE).unlink()
    assert refused("gutenberg", path) == (
        f"{path / FILE} is missing: put {FILE} (arrays x_train (n, 18) of letters a-z as 0..25 and space as 26, "
        "y_train, x_val, ...) into the data folder, or name another folder with --data-dir or $ECLOSE_DATA"
    )
