"""Images in folders and archives: which serve for what, how they are cut, and what is said of those that are wrong."""

import contextlib
import gzip
import io
import os
import shutil
import struct
import tarfile
import zlib
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from PIL import Image

from eclose.tasks.published import imagenet_archives, imagenet_decoding, matlab
from eclose.tasks.published.imagenet_archives import KIT, TRAIN, VAL
from tests.tasks.published.pieces import imagenet_folder, load, refused

SMALL = {"size": 16, "val": 2}


@pytest.fixture
def folder(tmp_path):
    imagenet_folder(tmp_path)
    return tmp_path


def test_the_last_of_every_class_validate_and_the_published_ones_test(folder):
    task = load("imagenet", folder, **SMALL)
    assert task.layout.classes == ("n01", "n02", "n03")
    assert task.train.all()[1].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert task.val.all()[1].tolist() == task.test.all()[1].tolist() == [0, 0, 1, 1, 2, 2]
    for split in task.splits.values():
        x, y = split.all()
        assert x.float().mean((2, 3)).argmax(1).tolist() == y.tolist()  # the colour of the class


def test_images_are_cut_around_the_middle(folder):
    values = np.zeros((16, 48, 3), np.uint8)
    values[:, 16:32] = 200
    place = folder / "imagenet" / "val" / "n01"
    shutil.rmtree(place)
    place.mkdir()
    Image.fromarray(values).save(place / "a.png")
    x = load("imagenet", folder, **SMALL).test.all()[0][0]
    assert x.shape == (3, 16, 16)
    assert (x == 200).all()


def test_grey_images_have_three_channels(folder):
    Image.fromarray(np.full((20, 20), 77, np.uint8)).save(folder / "imagenet" / "val" / "n01" / "n01_0.JPEG")
    assert (load("imagenet", folder, **SMALL).test.all()[0][0].float() - 77).abs().max() < 3


def test_they_are_decoded_once(folder, monkeypatch):
    decoded = []
    monkeypatch.setattr(
        imagenet_decoding,
        "_decode",
        lambda piece, size, own=imagenet_decoding._decode: decoded.append(piece) or own(piece, size),
    )
    for size in (16, 16, 12):
        load("imagenet", folder, size=size, val=2)
    assert len(decoded) == 2 * 21


def test_fewer_images_of_every_class(folder):
    task = load("imagenet", folder, per_class=3, **SMALL)
    assert [len(split) for split in task.splits.values()] == [3, 6, 6]


def test_refusals(folder, tmp_path, monkeypatch):
    assert refused("imagenet", folder, size=16, val=5) == (
        f"{folder}/imagenet/train/n01 has 5 images, but task.val=5 of them validate"
    )
    assert refused("imagenet", folder, size=2) == (
        "task imagenet: size is 2 (8 or more), val 50 (1 or more), per_class 0 (0, or more than val)"
    )
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(2e6))
    told = refused("imagenet", folder, size=500, val=2)
    assert told.startswith("the decoded images need 0.0158 GB, but ")
    assert told.endswith(
        "has 0.002 GB left: lower task.size or task.per_class, or put the cache on another disk with $ECLOSE_CACHE"
    )
    monkeypatch.undo()
    program = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n%%EndComments\n"  # Pillow would have it run
    for content in (b"no image", program):
        (folder / "imagenet" / "val" / "n01" / "n01_0.JPEG").write_bytes(content)
        told = refused("imagenet", folder, size=20, val=2)
        assert told == (
            f"{folder}/imagenet/val/n01/n01_0.JPEG is not an image that Pillow can read (of no known format): "
            "replace or remove it"
        )
    shutil.rmtree(folder / "imagenet" / "val" / "n02")
    assert refused("imagenet", folder, **SMALL) == (
        f"{folder}/imagenet/val has no folder 'n02': both must have one folder for every class"
    )
    for name in ("n02", "n03"):
        shutil.rmtree(folder / "imagenet" / "train" / name)
    assert refused("imagenet", folder, **SMALL) == (
        f"{folder}/imagenet/train has 1 folders, but must have one for every class, and two or more"
    )
    shutil.rmtree(folder / "imagenet")
    assert refused("imagenet", folder, **SMALL) == (
        f"there is no ImageNet in {folder}: put its folders imagenet/train/CLASS/*.JPEG and "
        "imagenet/val/CLASS/*.JPEG there, or its archives imagenet/ILSVRC2012_img_train.tar, ILSVRC2012_img_val.tar "
        "and ILSVRC2012_devkit_t12.tar.gz, or name another folder with --data-dir or $ECLOSE_DATA"
    )


def test_an_image_replaced_under_its_name_is_decoded_anew(folder):
    before = load("imagenet", folder, **SMALL).test.all()[0]
    path = folder / "imagenet" / "val" / "n01" / "n01_0.JPEG"
    Image.fromarray(np.full((20, 20, 3), 77, np.uint8)).save(path)
    after = load("imagenet", folder, **SMALL).test.all()[0]
    assert (after[0].float() - 77).abs().max() < 3
    assert (after[1:] == before[1:]).all()


def test_what_is_no_file_is_not_waited_for(folder):
    path = folder / "imagenet" / "val" / "n01" / "n01_0.JPEG"
    path.unlink()
    os.mkfifo(path)
    assert refused("imagenet", folder, **SMALL) == (
        f"{path} is not an image that Pillow can read (it is not a file): replace or remove it"
    )
    path.unlink()
    path.symlink_to("nowhere")
    assert "n01_0.JPEG is not an image that Pillow can read ([Errno 2] No such file" in (
        refused("imagenet", folder, **SMALL)
    )


NUMBERS = {"n01": 3, "n02": 1, "n03": 2, "n00": 4}  # those of the kit; n00 has no images of its own
ORDER = ["n02", "n01", "n03", "n03", "n01", "n02"]  # of the validation images


def tar(files, mode="w"):
    """Content by name, as bytes."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode=mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), 0.5  # a broken time has a header of its own
            archive.addfile(member, io.BytesIO(content))
    return written.getvalue()


def table(numbers=NUMBERS, compressed=True, name="synsets"):
    """A meta.mat, with other fields and variables around those that are read."""
    rows = np.zeros((len(numbers), 1), [(field, object) for field in ("ILSVRC2012_ID", "WNID", "words", "children")])
    for row, (wordnet, number) in zip(rows[:, 0], numbers.items(), strict=True):
        row["ILSVRC2012_ID"], row["WNID"], row["words"] = float(number), wordnet, "tench, Tinca tinca"
        row["children"] = np.arange(3)
    written = io.BytesIO()
    scipy.io.savemat(written, {"version": 2012.0, name: rows, "after": "more"}, do_compression=compressed)
    return written.getvalue()


def kit(meta=None, truth=None):
    """A development kit."""
    numbers = "".join(f"{NUMBERS[name]}\n" for name in ORDER).encode()
    place = "ILSVRC2012_devkit_t12/"
    files = {"readme.txt": b"hello", "data/meta.mat": table() if meta is None else meta}
    files["data/ILSVRC2012_validation_ground_truth.txt"] = numbers if truth is None else truth
    return gzip.compress(tar({place + name: content for name, content in files.items()}))


def unsorted(folder):
    """The validation images under their numbers; those of a class stay in their order."""
    left = {name: sorted((folder / "imagenet" / "val" / name).iterdir()) for name in set(ORDER)}
    return {f"ILSVRC2012_val_{number:08d}.JPEG": left[name].pop(0).read_bytes() for number, name in enumerate(ORDER, 1)}


@pytest.fixture
def archives(folder):
    """Archives of the images of ``folder``, beside that one."""
    place = folder / "packed" / "imagenet"
    place.mkdir(parents=True)
    classes = {}
    for own in sorted((folder / "imagenet" / "train").iterdir(), reverse=True):
        images = {path.name: path.read_bytes() for path in sorted(own.iterdir(), reverse=True)}
        classes[f"{own.name}.tar"] = tar({**images, "notes.txt": b"others do no harm"})
    (place / TRAIN).write_bytes(tar(classes))
    (place / VAL).write_bytes(tar(dict(reversed(unsorted(folder).items()))))
    (place / KIT).write_bytes(kit())
    return place


def check_same(one, other):
    assert one.layout.classes == other.layout.classes
    for part, split in one.splits.items():
        for mine, its in zip(split.all(), other.splits[part].all(), strict=True):
            np.testing.assert_array_equal(mine.numpy(), its.numpy())


@pytest.mark.parametrize("where", ["..", "."])
@pytest.mark.parametrize("compressed", [False, True])
def test_archives_are_read_as_folders_are(folder, archives, compressed, where):
    (archives / KIT).write_bytes(kit(table(compressed=compressed)))
    check_same(load("imagenet", archives / where, **SMALL), load("imagenet", folder, **SMALL))
    assert sorted(path.name for path in archives.iterdir()) == [KIT, TRAIN, VAL]  # nothing was unpacked


@pytest.mark.parametrize("form", [KIT, VAL, "val"])
def test_folders_and_archives_together(folder, archives, form):
    """Class folders of one part, and an archive or a folder without classes of the other."""
    place = folder / "imagenet"
    if form == KIT:  # folders for validation; no kit is needed
        (place / "train").rename(archives / "left")
        (archives / TRAIN).rename(place / TRAIN)
    else:
        for name in (KIT, *([VAL] if form == VAL else [])):
            (archives / name).rename(place / name)
        images = unsorted(folder)
        shutil.rmtree(place / "val")
        if form == "val":
            (place / "val").mkdir()
            for name, content in images.items():
                (place / "val" / name).write_bytes(content)
    task = load("imagenet", folder, **SMALL)
    assert task.test.all()[1].tolist() == [0, 0, 1, 1, 2, 2]
    for split in task.splits.values():
        x, y = split.all()
        assert x.float().mean((2, 3)).argmax(1).tolist() == y.tolist()  # the colour of the class


def test_kaggles_list_has_the_classes_too(folder):
    place = folder / "imagenet"
    images = unsorted(folder)
    expected = load("imagenet", folder, **SMALL)
    shutil.rmtree(place / "val")
    (place / "val").mkdir()
    for name, content in images.items():
        (place / "val" / name).write_bytes(content)
    rows = [f"{Path(name).stem},{own} 1 2 3 4" for name, own in zip(images, ORDER, strict=True)]
    path = place / "LOC_val_solution.csv"
    path.write_text("\n".join(["ImageId,PredictionString", *reversed(rows)]) + "\n")
    check_same(load("imagenet", folder, **SMALL), expected)
    path.write_text("\n".join(["ImageId,PredictionString", *rows[1:]]))
    assert refused("imagenet", folder, **SMALL) == (
        f"{path} does not have the class of {place / 'val' / next(iter(images))}: download both again"
    )
    path.write_text("ImageId\n")
    assert refused("imagenet", folder, **SMALL).startswith(f"{path} is not Kaggle's list of validation images (")
    path.unlink()
    assert refused("imagenet", folder, **SMALL).startswith(f"{place / KIT} is missing: ")


def test_class_folders_win(folder, archives):
    for name in (TRAIN, VAL, KIT):
        (folder / "imagenet" / name).write_bytes(b"not looked at")
    load("imagenet", folder, **SMALL)
    (archives / "train").mkdir()  # but not where they are empty
    (archives / "val").mkdir()
    load("imagenet", archives, **SMALL)


def test_archives_are_listed_and_decoded_once(archives, monkeypatch):
    seen = []
    for module, name in ((imagenet_archives, "_index"), (imagenet_decoding, "_decode")):
        own = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, own=own, name=name: seen.append(name) or own(*given))
    for _ in range(2):
        before = load("imagenet", archives, **SMALL).test.all()[0]
    assert (seen.count("_index"), seen.count("_decode")) == (2, 21)
    path = archives / VAL
    with tarfile.open(path) as archive:
        files = {member.name: archive.extractfile(member).read() for member in archive}
    grey = io.BytesIO()
    Image.fromarray(np.full((20, 20, 3), 77, np.uint8)).save(grey, "png")
    path.write_bytes(tar({**files, "ILSVRC2012_val_00000002.JPEG": grey.getvalue()}))
    after = load("imagenet", archives, **SMALL).test.all()[0]
    assert (after[0] == 77).all()
    assert (after[1:] == before[1:]).all()


def damaged(path, content, **options):
    """What is said to be wrong with an archive that has this content instead."""
    own = path.read_bytes()
    path.write_bytes(content)
    told = refused("imagenet", path.parent, **SMALL, **options)
    path.write_bytes(own)
    beginning, end = f"{path} is not a readable part of ImageNet (", "): download it again"
    assert told.startswith(beginning)
    assert told.endswith(end)
    return told.removeprefix(beginning).removesuffix(end)


def test_damaged_archives(archives):
    for name in (TRAIN, VAL):
        path = archives / name
        own = path.read_bytes()
        assert damaged(path, b"") == "it ends too early"
        assert damaged(path, b"text" * 1000) == "invalid header"
        assert damaged(path, bytes(1024)) == "it has no images"
        assert damaged(path, tar({"a.txt": b"text"})) == "it has no images"
        for end in (100, 512, 1000, len(own) // 2, len(own) // 2 // 512 * 512):
            assert damaged(path, own[:end]) == "it ends too early"
        with tarfile.open(path) as archive:
            header = archive.getmembers()[1].offset
        assert damaged(path, own[:header] + b"\7" + own[header + 1 :]) == "bad checksum"
    inner = tar({"a.JPEG": b"1234"})
    assert damaged(archives / TRAIN, tar({"n01.tar": inner})) == "it has the images of 1 classes"
    assert damaged(archives / TRAIN, tar({"n01.tar": inner, "n02.tar": inner[:1000]})) == "it ends too early"


def lying(size):
    """A tar whose file says that it has this size."""
    member = tarfile.TarInfo("ILSVRC2012_val_00000001.JPEG")
    member.size = size
    return member.tobuf(tarfile.GNU_FORMAT) + bytes(2048)


def test_hostile_archives(archives, monkeypatch):
    for size in (-512, -1, 10**6, 2**70):
        assert damaged(archives / VAL, lying(size)) == "it ends too early"
    outside = {"../../n01.tar": tar({"/etc/passwd.JPEG": b"1"}), "...tar": tar({"../a.JPEG": b"1"})}
    (archives / "strange").mkdir()
    shutil.copy(archives / VAL, archives / "strange" / VAL)
    shutil.copy(archives / KIT, archives / "strange" / KIT)
    (archives / "strange" / TRAIN).write_bytes(tar({**outside, "a\n\x1b[31m.tar": tar({"b.JPEG": b"1"})}))
    place = archives / "strange"
    assert refused("imagenet", place, **SMALL) == (
        f"{place / TRAIN} has the class '..', which {place / KIT} does not know: "
        "download both again, or put the validation images into folders val/CLASS"
    )
    (place / TRAIN).write_bytes(tar({"n01.tar": tar({"b.JPEG": b"1"}), "n01\n\x1b[31m.tar": tar({"b.JPEG": b"1"})}))
    assert f"{place / TRAIN} has the class 'n01\\n\\x1b[31m', which" in refused("imagenet", place, **SMALL)
    monkeypatch.setattr(imagenet_archives, "_MOST", 3)
    assert damaged(archives / VAL, (archives / VAL).read_bytes()) == "it has far too many files"
    monkeypatch.setattr(imagenet_archives, "_LARGEST_IMAGE", 3)
    assert damaged(archives / VAL, tar({"a.JPEG": b"1234"})) == "its file '/a.JPEG' is far too large"


def test_images_of_archives_that_cannot_be_read(archives):
    images = {f"ILSVRC2012_val_{number:08d}.JPEG": b"no image" for number in range(1, 7)}
    (archives / VAL).write_bytes(tar(images))
    assert refused("imagenet", archives, **SMALL) == (
        f"'ILSVRC2012_val_00000002.JPEG' in {archives / VAL} is not an image that Pillow can read "
        "(of no known format): download the archive again"
    )
    assert refused("imagenet", archives, size=16, val=5) == (
        f"{archives / TRAIN}/n01 has 5 images, but task.val=5 of them validate"
    )


def test_images_and_kits_that_do_not_fit(archives):
    path = archives / KIT
    for numbers, count in ((b"1 2 3", 3), (b"", 0)):
        path.write_bytes(kit(truth=numbers))
        assert refused("imagenet", archives, **SMALL) == (
            f"{archives / VAL} has 6 images, but {path} has the classes of {count}: download both again"
        )
    path.write_bytes(kit(table({"n01": 3, "n03": 2, "n04": 1})))
    assert refused("imagenet", archives, **SMALL) == (
        f"{archives / TRAIN} has the class 'n02', which {path} does not know: "
        "download both again, or put the validation images into folders val/CLASS"
    )
    path.write_bytes(kit())
    names = [f"ILSVRC2012_val_{number:08d}.JPEG" for number in (1, 2, 4, 5, 6, 7)]
    (archives / VAL).write_bytes(tar(dict.fromkeys(names, b"1")))
    assert refused("imagenet", archives, **SMALL) == (
        f"'ILSVRC2012_val_00000004.JPEG' in {archives / VAL} is not image 00000003, whose class {path} has there: "
        f"download {archives / VAL} again"
    )
    path.unlink()
    assert refused("imagenet", archives, **SMALL) == (
        f"{path} is missing: it has the classes of the images in {archives / VAL}, put it there, too"
    )


def test_damaged_kits(archives, monkeypatch):
    path = archives / KIT
    own = path.read_bytes()
    assert damaged(path, b"text").startswith("Not a gzipped file")
    assert damaged(path, own[: len(own) // 2]).startswith("Compressed file ended before")
    assert damaged(path, gzip.compress(b"text")) == "it ends too early"
    assert damaged(path, gzip.compress(tar({"meta.mat": table()}))) == (
        "it has no file 'ILSVRC2012_validation_ground_truth.txt'"
    )
    assert damaged(path, kit(truth=b"1\n9\n")) == (
        "its ILSVRC2012_validation_ground_truth.txt has '9', which its meta.mat lacks"
    )
    monkeypatch.setattr(imagenet_archives, "_LARGEST_LIST", 10)
    assert damaged(path, own) == "its file 'meta.mat' is far too large"
    monkeypatch.setattr(imagenet_archives, "_LARGEST_KIT", 1000)
    assert damaged(path, own) == "it unpacks to far too much"


def element(kind, content):
    return struct.pack("<II", kind, len(content)) + content


@pytest.mark.parametrize(
    ("meta", "reason"),
    [
        (b"", "it is no MATLAB 5 file"),
        (b"text" * 100, "it is no MATLAB 5 file"),
        (table(name="others"), "it has no struct array 'synsets'"),
        (table()[:-200], "it ends too early"),
        (table(compressed=False)[:600], "it ends too early"),
        (table(compressed=False).replace(b"WNID", b"DINW"), "it has no field 'WNID'"),
        (table({"n01": np.nan}), "cannot convert float NaN to integer"),
        (table({"n01": np.inf}), "cannot convert float infinity to integer"),
        (table({"../n01": 1}), "it has a class without a number or a name ('../n01')"),
        (table({"": 1}), "it has a class without a number or a name ('')"),
        (table()[:128] + element(15, b"text"), "it is damaged"),
        (table()[:128] + element(15, zlib.compress(element(14, b"text" * 10))), "it ends too early"),
        (table()[:128] + element(15, zlib.compress(bytes(17 * 2**20))), "it unpacks to far too much"),
    ],
)
def test_damaged_tables(archives, meta, reason):
    assert damaged(archives / KIT, kit(meta)) == f"its meta.mat: {reason}"


@pytest.mark.parametrize("version", ["6.5.1", "7.1", "7.4"])
def test_tables_that_matlab_wrote(version):
    path = Path(scipy.io.__file__).parent / "matlab" / "tests" / "data" / f"teststructarr_{version}_GLNX86.mat"
    if not path.is_file():
        pytest.skip("this scipy comes without its tests")
    truth = scipy.io.loadmat(path, squeeze_me=True)["teststructarr"]
    rows = matlab.read_structs(path.read_bytes(), "teststructarr", ("two", "one"))
    for row, member in zip(rows, truth, strict=True):
        for values, its in zip(row, (member["two"], member["one"]), strict=True):
            assert values == (tuple(map(ord, its)) if isinstance(its, str) else (its,))


def test_tables_with_any_byte_changed():
    """Another table, or a ``ValueError``: nothing else."""
    rng = np.random.default_rng(0)
    own = table(compressed=False)
    assert len(matlab.read_structs(own, "synsets", ("ILSVRC2012_ID", "WNID"))) == len(NUMBERS)
    for place in rng.integers(128, len(own), 500):
        changed = bytearray(own)
        changed[place] = rng.integers(256)
        with contextlib.suppress(ValueError, OverflowError):
            imagenet_archives._wordnet_names(bytes(changed))
