import numpy as np
import pytest

from eclose.signature import Signature
from tests.tasks.published.pieces import LANGUAGES, language_folder, load, refused, sizes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("data")
    return path, language_folder(path)


def words_of(split):
    """The four words of every image, read off it letter by letter."""
    x = split.all()[0]
    assert x.unique().tolist() == [0, 1]
    assert bool((x.sum(3) == 1).all())  # one letter in every position
    return [[tuple(word) for word in np.split(image[0].argmax(1).numpy(), 4)] for image in x]


def test_all_words_of_an_image_are_of_its_language(folder):
    path, words = folder
    known = [{tuple(word) for word in words[name]} for name in LANGUAGES]
    task = load("language", path, train=500, val=200, test=100)
    assert task.signature == Signature("classification", 1, (24, 24), 10)
    assert sizes(task) == {"train": 500, "val": 200, "test": 100}
    for split in task.splits.values():
        assert set(np.bincount(split.y)) == {len(split) // 10}
        for image, label in zip(words_of(split), split.y.tolist(), strict=True):
            assert set(image) <= known[label]


def test_no_word_serves_two_parts_in_any_language(folder):
    path, words = folder
    task = load("language", path, train=3000, val=1000, test=1000)
    used = {part: {word for image in words_of(split) for word in image} for part, split in task.splits.items()}
    everything = {tuple(word) for name in LANGUAGES for word in words[name]}
    assert len(everything) == 600
    assert used["train"] | used["val"] | used["test"] == everything
    assert {part: len(part_words) for part, part_words in used.items()} == {"train": 420, "val": 90, "test": 90}


def test_the_first_letter_is_in_the_first_row(folder):
    path, words = folder
    task = load("language", path, train=10, val=1, test=1)
    x, y = task.train.all()
    for image, label in zip(x[:, 0], y, strict=True):
        first = [int(image[row].nonzero()) for row in range(6)]
        assert first in words[LANGUAGES[label]].tolist()


def test_refused(folder, tmp_path):
    path, _ = folder
    wanted = "task.train is 9, but must be at least 10: one sample of every class"
    assert refused("language", path, train=9) == wanted
    file = "language_words/six_letter_words.npz"
    assert refused("language", tmp_path) == (
        f"{tmp_path / file} is missing: put {file} (arrays english, dutch, ... (n, 6) of letters a-x as 0..23, "
        "see docs/guide/data.md) into the data folder, or name another folder with --data-dir or $ECLOSE_DATA"
    )
    words = language_folder(tmp_path)
    np.savez(tmp_path / file, **{**words, "zulu": words["zulu"][:1]})
    assert refused("language", tmp_path).startswith(f"words of {file} for ")
    assert refused("language", tmp_path).endswith(": class 7 has 0, but must have at least 1: use all data")
    np.savez(tmp_path / file, **{**words, "zulu": words["zulu"] + np.uint8(1)})
    assert refused("language", tmp_path).startswith(f"{tmp_path / file}: 'zulu' is uint8 (70, 6), but must be uint8")
