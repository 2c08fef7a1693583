"""Small data folders for tasks that are put together from pieces, and where the pieces of a sample came from."""

import numpy as np
import pytest
from PIL import Image

from eclose.config import TaskSection
from eclose.errors import TaskError
from eclose.tasks import load_task
from tests.tasks.published.test_images import encoded

LANGUAGES = ["english", "dutch", "german", "spanish", "french", "portuguese", "swedish", "zulu", "swahili", "finnish"]


def load(name, folder, **options):
    return load_task(TaskSection(name=name, data_dir=str(folder), options=options), lambda done, total: None)


def refused(name, folder, **options):
    with pytest.raises(TaskError) as error:
        load(name, folder, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def sizes(task):
    return {part: len(split) for part, split in task.splits.items()}


def mnist_folder(folder, train=400, test=60, space=(3, 2)):
    """Digits in no order, on images of noise."""
    rng = np.random.default_rng(0)
    arrays = {}
    for part, n in (("train", train), ("test", test)):
        arrays[f"x_{part}"] = rng.integers(0, 256, (n, *space), dtype=np.uint8)
        arrays[f"y_{part}"] = rng.permutation(np.arange(n, dtype=np.uint8) % 10)
    (folder / "mnist").mkdir()
    np.savez(folder / "mnist" / "mnist.npz", **arrays)
    return arrays


def cifar10_folder(folder, each=100, test=50):
    """Five training shards and a test shard; all images as ``x_train, y_train, x_test, y_test``."""
    rng = np.random.default_rng(0)
    (folder / "cifar10").mkdir()
    parts = {"train": [], "test": []}
    for name in ("train1", "train2", "train3", "train4", "train5", "test"):
        images = rng.integers(0, 256, (test if name == "test" else each, 3, 4, 2), dtype=np.uint8)
        data = encoded(images)
        np.savez(folder / "cifar10" / f"cifar10_{name}.npz", **data)
        parts["test" if name == "test" else "train"].append((images, data["labels"]))
    return {
        f"{array}_{part}": np.concatenate([pair[i] for pair in pairs])
        for part, pairs in parts.items()
        for i, array in enumerate("xy")
    }


def language_folder(folder, each=60):
    """Random words; the first ten of every language are also words of the next one."""
    rng = np.random.default_rng(0)
    own = {name: rng.integers(0, 24, (each, 6), dtype=np.uint8) for name in LANGUAGES}
    names = [*LANGUAGES[1:], LANGUAGES[0]]
    words = {name: np.concatenate([own[name], own[before][:10]]) for before, name in zip(LANGUAGES, names, strict=True)}
    (folder / "language_words").mkdir()
    np.savez(folder / "language_words" / "six_letter_words.npz", **words)
    return words


def gutenberg_folder(folder):
    """Random letters by six authors."""
    rng = np.random.default_rng(0)
    arrays = {}
    for part, n in (("train", 30), ("val", 12), ("test", 7)):
        arrays[f"x_{part}"] = rng.integers(0, 27, (n, 18), dtype=np.uint8)
        arrays[f"y_{part}"] = np.arange(n, dtype=np.uint8) % 6
    (folder / "gutenberg").mkdir()
    np.savez(folder / "gutenberg" / "gutenberg_phrases.npz", **arrays)
    return arrays


WORDS = ["good", "bad", "not", "n't", "is", ".", "film", "what", "the", "-"]
SENTENCE_SETS = {"MR": 2, "CR": 2, "MPQA": 2, "SUBJ": 2, "SST1": 5, "SST2": 2, "TREC": 6}  # and their classes


def sentences_folder(folder, count=60):
    """Sentences of random words, each with its number, and vectors of four channels for the words."""
    rng = np.random.default_rng(0)
    (folder / "sentences").mkdir()
    vectors = rng.normal(size=(len(WORDS), 4)).astype(np.float16)
    np.savez(folder / "sentences" / "word_vectors_100d.npz", vectors=vectors, words=as_bytes(WORDS))
    texts = {}
    for name, classes in SENTENCE_SETS.items():
        parts = {"SST1": ("train", "dev", "test"), "SST2": ("train", "dev", "test"), "TREC": ("train", "test")}
        arrays = {}
        for part in parts.get(name, ("all",)):
            lines = [f"{part}{n} {' '.join(rng.choice(WORDS, rng.integers(1, 5)))}" for n in range(count)]
            texts[name, part] = lines
            arrays |= {f"{part}_text": as_bytes(lines), f"{part}_labels": (np.arange(count) % classes).astype(np.uint8)}
        np.savez(folder / "sentences" / f"{name}.npz", **arrays)
    return vectors, texts


def as_bytes(lines):
    return np.frombuffer("\n".join(lines).encode(), np.uint8)


def imdb_folder(folder, train=40, test=20):
    """Random reviews of one to thirty letters, bad ones first; the texts of each part."""
    rng = np.random.default_rng(0)
    (folder / "imdb").mkdir()
    texts = {}
    for part, n in (("train", train), ("test", test)):
        texts[part] = [bytes(rng.integers(97, 123, rng.integers(1, 31), dtype=np.uint8)) for _ in range(n)]
        offsets = np.cumsum([0, *map(len, texts[part])], dtype=np.int32)
        labels = (np.arange(n) >= n // 2).astype(np.uint8)
        text = np.frombuffer(b"".join(texts[part]), np.uint8)
        np.savez(folder / "imdb" / f"imdb_{part}.npz", text=text, offsets=offsets, labels=labels)
    return texts


def aan_folder(folder, each=12):
    """Pairs of random texts of one to thirty letters; the two texts of every line, by part."""
    rng = np.random.default_rng(0)
    texts = {}
    for part, word in (("train", "train"), ("val", "eval"), ("test", "test")):
        texts[part] = [
            [bytes(rng.integers(97, 123, n, dtype=np.uint8)) for n in pair] for pair in rng.integers(1, 31, (each, 2))
        ]
        lines = [b"%d.0\t%d\t%d\t%s\t%s\n" % (row % 2, row, row + 1, *pair) for row, pair in enumerate(texts[part])]
        (folder / f"new_aan_pairs.{word}.tsv").write_bytes(b"".join(lines))
    return texts


def cosmic_folder(folder):
    """Noise, and where it is large."""
    rng = np.random.default_rng(0)
    images = {
        part: rng.normal(size=(n, 6, 5)).astype(np.float32) for part, n in (("train", 8), ("val", 3), ("test", 4))
    }
    (folder / "cosmic").mkdir()
    arrays = {f"x_{part}": x for part, x in images.items()} | {
        f"y_{part}": (x > 1).astype(np.uint8) for part, x in images.items()
    }
    np.savez(folder / "cosmic" / "cosmic.npz", **arrays)
    return arrays


def origin(arrays):
    """From the bytes of an image to the file part it is from, its number there, and its label."""
    found = {}
    for part in ("train", "test"):
        for number, (x, y) in enumerate(zip(arrays[f"x_{part}"], arrays[f"y_{part}"], strict=True)):
            found[x.tobytes()] = part, number, int(y)
    assert len(found) == len(arrays["x_train"]) + len(arrays["x_test"])  # no two images are alike
    return found


def check_sources(used):
    """``used``: by part, the ``(file part, number)`` of every piece. No piece serves two parts."""
    assert {file for file, _ in used["train"] | used["val"]} == {"train"}
    assert {file for file, _ in used["test"]} == {"test"}
    assert not used["train"] & used["val"]


def imagenet_folder(folder, train=5, val=2, classes=("n01", "n02", "n03")):
    """JPEG images of one colour a class, in shapes that have to be cut; the images by part and class."""
    rng = np.random.default_rng(0)
    for part, count in (("train", train), ("val", val)):
        for number, name in enumerate(classes):
            place = folder / "imagenet" / part / name
            place.mkdir(parents=True)
            for image in range(count):
                values = rng.integers(0, 60, (20 + image, 30 - image, 3), dtype=np.uint8)
                values[..., number] += 180
                Image.fromarray(values).save(place / f"{name}_{image}.JPEG", quality=95)
