"""Files of the UCR and UEA archives become arrays."""

import zipfile
from pathlib import Path

import numpy as np

from benchmarks.portfolio.archive import write_sets

TS = """# a comment: with colons
@problemName Two
@timeStamps {stamps}
@univariate false
@classLabel {labels}
@data
1,2,3:4,5,?:left
6,7:8,9.5:right
"""


def test_signals_of_a_folder_and_of_a_wheel(tmp_path: Path) -> None:
    folder = tmp_path / "sets"
    folder.mkdir()
    for part in ("TRAIN", "TEST"):
        for name in ("Two", "Two_eq", "Crop"):
            (folder / f"{name}_{part}.ts").write_text(TS.format(stamps="false", labels="true left right"))
        (folder / f"Values_{part}.ts").write_text(TS.format(stamps="false", labels="false"))
        (folder / f"Times_{part}.ts").write_text(TS.format(stamps="true", labels="true left right"))
    (folder / "Half_TRAIN.ts").write_text(TS.format(stamps="false", labels="true left right"))
    wheel = tmp_path / "package.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("package/data/Streaks_TRAIN.txt", "  1.0  0.5 0.25\n  -1 1e-3  2\n")
        archive.writestr("package/data/Streaks_TEST.tsv", "1\t3\t4\n")
    assert write_sets([folder, wheel], tmp_path / "made") == ["Streaks", "Two"]
    two, streaks = (np.load(tmp_path / "made" / f"{name}.npz") for name in ("Two", "Streaks"))
    np.testing.assert_array_equal(two["x_train"], [[[1, 2, 3], [4, 5, 0]], [[6, 7, 0], [8, 9.5, 0]]])
    assert two["y_test"].tolist() == [0, 1]
    np.testing.assert_allclose(streaks["x_train"], [[[0.5, 0.25]], [[1e-3, 2]]])
    assert (streaks["y_train"].tolist(), streaks["y_test"].tolist()) == ([1, 0], [1])
