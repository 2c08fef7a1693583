import numpy as np

from tests.tasks.published.pieces import cosmic_folder, load, refused, sizes


def test_without_validation_images_some_are_held_out(tmp_path):
    arrays = cosmic_folder(tmp_path)
    np.savez(tmp_path / "cosmic" / "cosmic.npz", **{name: a for name, a in arrays.items() if "val" not in name})
    assert sizes(load("cosmic", tmp_path)) == {"train": 7, "val": 1, "test": 4}


def test_the_file_that_is_missing_is_named(tmp_path):
    assert refused("cosmic", tmp_path) == (
        f"{tmp_path / 'cosmic' / 'cosmic.npz'} is missing: put cosmic/cosmic.npz (arrays x_train (n, height, width), "
        "y_train of 0 and 1, x_test, y_test, see docs/guide/data.md) into the data folder, "
        "or name another folder with --data-dir or $ECLOSE_DATA"
    )
