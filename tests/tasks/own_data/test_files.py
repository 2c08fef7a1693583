import errno
import io
import os
import zipfile

import numpy as np
import pytest

from eclose.errors import TaskError
from eclose.runs import cache_folder
from eclose.tasks import read_arrays
from eclose.tasks.own_data import files

ARRAYS = {
    "x_train": np.arange(24, dtype=np.float32).reshape(4, 6),
    "y_train": np.arange(4, dtype=np.uint8),
    "x_val": np.asfortranarray(np.arange(30, dtype=np.int16).reshape(5, 3, 2)),
    "y_val": np.linspace(0, 1, 5).astype(">f8"),
    "x_test": np.arange(7, dtype=np.float16)[:, None],
    "y_test": np.array([True, False]),
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ECLOSE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def mapped(monkeypatch):
    """Every array counts as large."""
    monkeypatch.setattr(files, "LARGE", 0)


def assert_same(got, wanted):
    assert got.keys() == wanted.keys()
    for name, array in wanted.items():
        assert got[name].dtype == array.dtype, name
        assert got[name].shape == array.shape, name
        np.testing.assert_array_equal(got[name], array, err_msg=name)


def folder_of(path, arrays):
    path.mkdir()
    for name, array in arrays.items():
        np.save(path / f"{name}.npy", array)
    return path


def error_of(path, *names):
    with pytest.raises(TaskError) as error:
        read_arrays(path, *names)
    assert "\n" not in str(error.value)
    return str(error.value)


def is_refused(path):
    text = None
    try:
        read_arrays(path)
    except TaskError as error:
        text = str(error)
    assert text is None or (str(path) in text and "\n" not in text)
    return text is not None


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path, save):
    save(tmp_path / "a.npz", **ARRAYS, other=np.zeros(3))
    assert_same(read_arrays(tmp_path / "a.npz"), ARRAYS)
    assert not any(isinstance(array, np.memmap) for array in read_arrays(tmp_path / "a.npz").values())
    assert not cache_folder().exists()


def test_folder(tmp_path):
    folder = folder_of(tmp_path / "d", {**ARRAYS, "other": np.zeros(3)})
    (folder / "notes.txt").write_text("x")
    assert_same(read_arrays(folder), ARRAYS)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_large_npz_is_mapped(tmp_path, mapped, save):
    save(tmp_path / "a.npz", **ARRAYS)
    arrays = read_arrays(tmp_path / "a.npz")
    assert_same(arrays, ARRAYS)
    assert all(isinstance(array, np.memmap) for array in arrays.values())


def test_large_folder_is_mapped(tmp_path, mapped):
    arrays = read_arrays(folder_of(tmp_path / "d", ARRAYS))
    assert_same(arrays, ARRAYS)
    assert all(isinstance(array, np.memmap) for array in arrays.values())


def test_only_large_arrays_are_mapped(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LARGE", 2000)
    wanted = {"x": np.ones((100, 5)), "y": np.arange(100, dtype=np.int8)}
    np.savez(tmp_path / "a.npz", **wanted)
    arrays = read_arrays(tmp_path / "a.npz")
    assert_same(arrays, wanted)
    assert isinstance(arrays["x"], np.memmap)
    assert not isinstance(arrays["y"], np.memmap)


def test_writing_to_a_mapped_array_leaves_the_file_alone(tmp_path, mapped):
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", x=np.zeros((3, 4)), y=np.zeros(3))
        read_arrays(tmp_path / "a.npz")["x"][:] = 7
        assert not read_arrays(tmp_path / "a.npz")["x"].any()


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("kind", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_zip64_headers_and_all_versions_of_the_format(tmp_path, mapped, kind, version):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", kind) as archive:
        archive.writestr("README", "other members do no harm")
        for name, array in ARRAYS.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, version=version)
    assert_same(read_arrays(path), ARRAYS)


def test_the_local_header_may_be_longer_than_the_directory_says(tmp_path, mapped):
    """np.savez writes zip64 fields into the local headers only."""
    path = tmp_path / "a.npz"
    np.savez(path, x=np.arange(5.0), y=np.arange(5))
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("x.npy")
        local = int.from_bytes(path.read_bytes()[info.header_offset + 28 : info.header_offset + 30], "little")
        assert local != len(info.extra)
    assert_same(read_arrays(path), {"x": np.arange(5.0), "y": np.arange(5)})


def test_a_compressed_array_is_unpacked_once(tmp_path, mapped, monkeypatch):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.arange(6.0), y=np.arange(6))
    read_arrays(path)
    unpacked = sorted((cache_folder() / "unpacked").iterdir())
    assert len(unpacked) == 2
    before = [file.stat().st_ino for file in unpacked]
    read_arrays(path)
    assert [file.stat().st_ino for file in sorted((cache_folder() / "unpacked").iterdir())] == before


def test_a_changed_file_is_unpacked_again(tmp_path, mapped):
    path = tmp_path / "a.npz"
    for value in (1.0, 2.0):
        np.savez_compressed(path, x=np.full(5, value), y=np.arange(5))
        os.utime(path, ns=(int(value), int(value)))
        assert read_arrays(path)["x"].tolist() == [value] * 5


def test_a_single_npy_is_the_first_name(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(3))
    assert_same(read_arrays(tmp_path / "a.npy"), {"x": np.arange(3)})


def test_asked_for_names_only(tmp_path):
    np.savez(tmp_path / "a.npz", residual=np.arange(3), x=np.arange(2))
    assert_same(read_arrays(tmp_path / "a.npz", ("residual",)), {"residual": np.arange(3)})


def test_names_in(tmp_path):
    np.savez(tmp_path / "a.npz", b=np.arange(3), a=np.arange(2))
    assert files.names_in(tmp_path / "a.npz") == ["a", "b"]
    assert files.names_in(folder_of(tmp_path / "d", {"c": np.zeros(1)})) == ["c"]
    (tmp_path / "t.npz").write_text("text")
    assert files.names_in(tmp_path / "t.npz") == []


def test_nothing_there(tmp_path):
    assert error_of(tmp_path / "a.npz") == f"no such file: {tmp_path / 'a.npz'}"
    assert read_arrays(tmp_path) == {}


@pytest.mark.parametrize("content", [b"", b"x,y\n1,2\n", b"PK\x03\x04", b"\x93NUMPY"])
def test_no_npz(tmp_path, content):
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    text = error_of(path)
    assert text.startswith(f"{path} is not a readable .npz file (")
    assert text.endswith("): write one with np.savez(path, x=..., y=...)")


@pytest.mark.parametrize("large", [0, 2**28])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_truncated_npz(tmp_path, monkeypatch, save, large):
    monkeypatch.setattr(files, "LARGE", large)
    save(tmp_path / "whole.npz", **ARRAYS)
    content = (tmp_path / "whole.npz").read_bytes()
    path = tmp_path / "a.npz"
    for size in range(0, len(content), 97):
        path.write_bytes(content[:size])
        assert error_of(path).startswith(f"{path} is not a readable .npz file (")


@pytest.mark.parametrize("large", [0, 2**28])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_flipped_bit_raises_task_errors_only(tmp_path, monkeypatch, save, large):
    monkeypatch.setattr(files, "LARGE", large)
    save(tmp_path / "whole.npz", x=ARRAYS["x_train"], y=ARRAYS["y_train"])
    content = (tmp_path / "whole.npz").read_bytes()
    path = tmp_path / "a.npz"
    refused = 0
    for place in range(0, len(content), 3):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        refused += is_refused(path)
    assert refused > 10


def test_a_flipped_bit_in_the_header_of_an_npy(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, ARRAYS["x_train"])
    content = path.read_bytes()
    refused = 0
    for place in range(128):
        for bit in range(0, 8, 2):
            changed = bytearray(content)
            changed[place] ^= 1 << bit
            path.write_bytes(changed)
            refused += is_refused(path)
    assert refused > 100


def test_packed_in_an_unknown_way(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.zeros(3), y=np.zeros(3))
    content = path.read_bytes().replace(
        b"PK\x01\x02\x2d\x03\x2d\x00\x00\x00\x00\x00", b"PK\x01\x02\x2d\x03\x2d\x00\x00\x00\x09\x00"
    )
    path.write_bytes(content)
    assert error_of(path).startswith(f"{path} is not a readable .npz file (That compression method is not supported)")


def test_encrypted(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.zeros(3), y=np.zeros(3))
    content = path.read_bytes().replace(b"PK\x01\x02\x2d\x03\x2d\x00\x00\x00", b"PK\x01\x02\x2d\x03\x2d\x00\x01\x00")
    path.write_bytes(content)
    text = error_of(path)
    assert text.startswith(f"{path} is not a readable .npz file (")
    assert "encrypted" in text


@pytest.mark.parametrize("large", [0, 2**28])
def test_object_arrays_are_never_loaded(tmp_path, monkeypatch, large):
    monkeypatch.setattr(files, "LARGE", large)
    ragged = np.empty(2, dtype=object)
    ragged[:] = [np.zeros(2), np.zeros(3)]
    for save in (np.savez, np.savez_compressed):
        path = tmp_path / "a.npz"
        save(path, x=ragged, y=np.zeros(2))
        assert error_of(path) == (
            f"'x.npy' in {path} is an object array (pickle), which eclose never loads: "
            "store a rectangular array of numbers, or names as text (y.astype(str))"
        )
    path = folder_of(tmp_path / "d", {"x": ragged}) / "x.npy"
    assert error_of(path.parent) == (
        f"{path} is an object array (pickle), which eclose never loads: "
        "store a rectangular array of numbers, or names as text (y.astype(str))"
    )


@pytest.mark.parametrize("content", [b"", b"1,2,3\n", b"\x80\x04N."])
def test_no_npy(tmp_path, content):
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    wanted = f"{path} is not a readable array (it is not in the .npy format): write it again with numpy"
    assert error_of(path) == wanted
    assert error_of(tmp_path) == wanted


def test_an_npz_with_the_name_of_an_npy(tmp_path):
    buffer = io.BytesIO()
    np.savez(buffer, x=np.zeros(3))
    (tmp_path / "x.npy").write_bytes(buffer.getvalue())
    assert "it is not in the .npy format" in error_of(tmp_path)


@pytest.mark.parametrize("large", [0, 2**28])
def test_truncated_npy(tmp_path, monkeypatch, large):
    monkeypatch.setattr(files, "LARGE", large)
    path = tmp_path / "x.npy"
    np.save(path, np.zeros(100))
    content = path.read_bytes()
    for size in (7, 60, 128, 500):
        path.write_bytes(content[:size])
        text = error_of(path)
        assert text.startswith((f"{path} is not a readable array (", f"cannot read {path}: ")), text


def test_a_member_shorter_than_its_header_says(tmp_path, mapped):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": (100,)})
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", buffer.getvalue() + bytes(80))
        archive.writestr("padding", bytes(10000))
    wanted = "is not a readable array (it is shorter than its header says): write it again with numpy"
    assert error_of(path) == f"'x.npy' in {path} {wanted}"


def test_a_full_disk_is_no_fault_of_the_file(tmp_path, mapped, monkeypatch):
    def full(path):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(3), y=np.zeros(3))
    monkeypatch.setattr(files, "atomic_path", full)
    with pytest.raises(OSError, match="No space left on device"):
        read_arrays(tmp_path / "a.npz")


def test_a_sudden_end_while_unpacking_leaves_nothing(tmp_path, mapped):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.random.default_rng(0).normal(size=5000), y=np.zeros(3))
    content = bytearray(path.read_bytes())
    content[5000] ^= 255
    path.write_bytes(content)
    error_of(path)
    assert list((cache_folder() / "unpacked").iterdir()) == []
