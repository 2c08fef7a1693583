import pytest

from tests.tasks.published.pieces import aan_folder, load, refused


@pytest.mark.parametrize("place", ["", "aan", "lra_release"])
def test_two_texts_one_behind_the_other(tmp_path, place):
    (tmp_path / place).mkdir(exist_ok=True)
    texts = aan_folder(tmp_path / place)
    task = load("aan", tmp_path, length=20)
    for part, split in task.splits.items():
        x, y = split.all()
        assert y.tolist() == [0, 1] * 6
        for row, pair in zip(x, texts[part], strict=True):
            for half, text in zip(row.split(20), pair, strict=True):
                assert bytes(half.tolist()).rstrip(b"\0") == text[:20]


def test_what_is_refused(tmp_path):
    assert refused("aan", tmp_path) == (
        f"there is no AAN in {tmp_path}: put new_aan_pairs.train.tsv, new_aan_pairs.eval.tsv, new_aan_pairs.test.tsv "
        "of the Long Range Arena there, or name another folder with --data-dir or $ECLOSE_DATA"
    )
    aan_folder(tmp_path)
    assert refused("aan", tmp_path, length=0) == "task.length is 0, but must lie between 1 and 65536"
    path = tmp_path / "new_aan_pairs.eval.tsv"
    path.write_text("1.0\t1\t2\tone\tother\n2\t1\t2\tone\tother\n")
    assert refused("aan", tmp_path) == f"{path}, line 2: the label is b'2', but must be 0 or 1: download it again"
    path.write_text("1.0\tone\n")
    assert refused("aan", tmp_path).startswith(f"{path}, line 1: 2 columns, but there must be 5 (label, two numbers")
    path.write_text("")
    assert refused("aan", tmp_path) == f"{path} is empty: download it again"
    path.unlink()
    assert refused("aan", tmp_path) == f"cannot read {path}: No such file or directory"
