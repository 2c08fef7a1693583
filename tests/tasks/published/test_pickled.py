"""A pickle is read as data: arrays of bytes, lists and texts come out, everything else is refused, nothing runs."""

import contextlib
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from eclose.tasks.published.pickled import read_pickle

BATCH = {"data": np.arange(24, dtype=np.uint8).reshape(2, 12), "labels": [3, 300, 70000, -5], "batch_label": "one"}

# As Python 2 wrote the published files: protocol 2, byte strings as text.
PYTHON_2 = (
    b"\x80\x02}q\x01(U\x06labelsq\x02]q\x03(K\x03K\x01eU\x04dataq\x04cnumpy.core.multiarray\n_reconstruct\nq\x05"
    b"cnumpy\nndarray\nq\x06K\x00\x85q\x07U\x01bq\x08\x87q\tRq\n(K\x01K\x02K\x03\x86q\x0bcnumpy\ndtype\nq\x0c"
    b"U\x02u1q\rK\x00K\x01\x87q\x0eRq\x0f(K\x03U\x01|q\x10NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tq\x11b"
    b"\x89T\x06\x00\x00\x00\x00\x01\x02\xfd\xfe\xfftq\x12bU\tfilenamesq\x13]q\x14(U\x05a.pngq\x15U\x05b.pngq\x16eu."
)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
def test_what_python_3_writes(protocol):
    got = read_pickle(pickle.dumps(BATCH, protocol))
    assert got.keys() == BATCH.keys()
    np.testing.assert_array_equal(got["data"], BATCH["data"])
    assert got["labels"] == BATCH["labels"]


def test_what_python_2_wrote():
    got = read_pickle(PYTHON_2)
    assert got["data"].tolist() == [[0, 1, 2], [253, 254, 255]]
    assert (got["labels"], got["filenames"]) == ([3, 1], ["a.png", "b.png"])
    wanted = pickle.loads(PYTHON_2, encoding="latin1")
    np.testing.assert_array_equal(got["data"], wanted["data"])


def test_columns_first():
    array = np.asfortranarray(BATCH["data"])
    np.testing.assert_array_equal(read_pickle(pickle.dumps(array, 2)), array)


class Command:
    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


def hostile(target: Path) -> list[bytes]:
    command = f"echo run > {target}"
    objects = [
        Command(os.system, (command,)),
        Command(eval, (f"open({str(target)!r}, 'w')",)),
        Command(subprocess.check_output, (["touch", str(target)],)),
        Command(getattr, (dict, "fromkeys")),
        Command(np.save, (str(target), [1])),
        np.array([Command(os.system, (command,))], dtype=object),
        {"data": BATCH["data"], "labels": Command(os.system, (command,))},
    ]
    written = [pickle.dumps(thing, protocol) for thing in objects for protocol in (0, 2, 4)]
    by_hand = [
        f"cos\nsystem\n(S'{command}'\ntR.",
        f"(S'{command}'\nios\nsystem\n.",
        f"(cos\nsystem\nS'{command}'\no.",
        "cnumpy\nndarray\n(dS'__class__'\nS'x'\nsb.",
        "cnumpy.core.multiarray\n_reconstruct\n.",
        "cnumpy\nloads\n.",
        "\x82\x01.",
        "Pid\n.",
    ]
    return [*written, *(text.encode("latin-1") for text in by_hand)]


def test_nothing_in_a_pickle_runs(tmp_path):
    target = tmp_path / "ran"
    before = set(sys.modules)
    for content in hostile(target):
        with pytest.raises(ValueError) as error:
            read_pickle(content)
        assert "\n" not in str(error.value)
    assert not target.exists()
    assert not {"antigravity", "this"} & (set(sys.modules) - before)


def test_the_hostile_ones_would_run(tmp_path):
    """The test above proves something only if they do."""
    pickle.loads(hostile(tmp_path / "ran")[0])
    assert (tmp_path / "ran").exists()


def test_nothing_is_imported():
    with pytest.raises(ValueError, match=r"it names antigravity\.fly, which is not data"):
        read_pickle(b"cantigravity\nfly\n.")
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize("dtype", [np.int64, np.float32, object, ">u2", "S3"])
def test_other_arrays(dtype):
    with pytest.raises(ValueError, match="it holds an array of something else than bytes|does not need|not data"):
        read_pickle(pickle.dumps(np.zeros(4).astype(dtype), 2))


def test_shapes_that_lie():
    content = PYTHON_2.replace(b"K\x02K\x03\x86", b"K\x02K\x04\x86")
    with pytest.raises(ValueError, match="it holds an array whose shape does not fit its content"):
        read_pickle(content)


def test_damaged_files_raise_value_errors_only():
    for content in (PYTHON_2, pickle.dumps(BATCH, 4)):
        for size in range(len(content)):
            with pytest.raises(ValueError):
                read_pickle(content[:size])
        for place in range(len(content)):
            for bit in range(8):
                changed = bytearray(content)
                changed[place] ^= 1 << bit
                with contextlib.suppress(ValueError):
                    read_pickle(bytes(changed))


def test_a_thing_that_holds_itself():
    content = pickle.dumps([], 2)[:-1] + b"h\x00a."
    assert isinstance(read_pickle(content), list)
    with pytest.raises(ValueError, match="it is damaged"):
        read_pickle(b"}q\x00K\x01h\x00s.")
