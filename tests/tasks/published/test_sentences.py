import numpy as np
import pytest
import torch

from eclose.tasks.published.sentences import words
from tests.tasks.published.pieces import WORDS, as_bytes, load, refused, sentences_folder, sizes


def test_words_and_signs_are_found():
    line = "It's a man-made Film, isn't it? (they'd say $9)"
    told = "it 's a man-made film , is n't it ? ( they 'd say $ 9 )"
    assert words(line) == told.split()
    assert words("") == []


def test_a_sentence_is_the_vectors_of_its_words(tmp_path):
    vectors, texts = sentences_folder(tmp_path)
    x, y = load("sst-2", tmp_path, length=6).test.all()
    for number, line in enumerate(texts["SST2", "test"]):
        known = [vectors[WORDS.index(word)] for word in line.split()[1:]]
        np.testing.assert_array_equal(x[number, :, 1 : 1 + len(known)].T, known)
        assert not x[number, :, 1 + len(known) :].any()  # zeros behind the last word
        assert int(y[number]) == number % 2


def test_a_word_without_a_vector_has_always_the_same_random_one(tmp_path):
    sentences_folder(tmp_path)
    first, again = (load(name, tmp_path, length=6).test.all()[0][:, :, 0] for name in ("sst-1", "sst-2"))
    assert torch.equal(first, again)  # test0, test1, ...
    assert len({tuple(vector.tolist()) for vector in first}) == len(first)
    assert 0.5 < float(first.float().std()) < 1.5  # the spread of the known ones is 1


def test_long_sentences_are_cut(tmp_path):
    sentences_folder(tmp_path)
    whole, cut = (load("trec", tmp_path, length=length).test.all()[0] for length in (6, 2))
    assert torch.equal(whole[:, :, :2], cut)


def test_every_sentence_is_tested_in_one_fold_and_folds_are_alike(tmp_path):
    sentences_folder(tmp_path)
    tested = set()
    for fold in range(10):
        task = load("mr", tmp_path, fold=fold)
        assert sizes(task) == {"train": 49, "val": 5, "test": 6}
        assert task.test.all()[1].sum() == 3  # half of each class
        tested |= {x.numpy().tobytes() for x in task.test.all()[0]}
    assert len(tested) == 60


def test_files_that_do_not_fit_are_refused(tmp_path):
    sentences_folder(tmp_path)
    assert refused("mr", tmp_path, fold=10) == "task.fold is 10, but must lie between 0 and 9"
    assert refused("mr", tmp_path, length=0).startswith("task.length is 0, but must lie between 1 and 1024")
    path = tmp_path / "sentences" / "MR.npz"
    np.savez(path, all_text=as_bytes(["one", "two"]), all_labels=np.array([0, 1, 0]))
    assert refused("mr", tmp_path) == f"{path}: 'all_text' has 2 lines, but 'all_labels' 3 labels"
    np.savez(path, all_text=np.array([255, 254], np.uint8), all_labels=np.array([0]))
    assert refused("mr", tmp_path).startswith(f"{path} does not hold text in UTF-8")
    path = tmp_path / "sentences" / "word_vectors_100d.npz"
    np.savez(path, vectors=np.zeros((3, 4)), words=as_bytes(["one"]))
    assert refused("cr", tmp_path) == f"{path}: 'vectors' is float64 (3, 4), but must be floats (1, channels)"
    path.unlink()
    assert refused("cr", tmp_path).startswith(f"{path} is missing: put sentences/word_vectors_100d.npz (arrays vectors")


@pytest.mark.parametrize(("name", "published"), [("trec", (4907, 545, 500)), ("sst-2", (6920, 872, 1821))])
def test_published_sets(shared, name, published):
    task = load(name, shared)
    assert tuple(sizes(task).values()) == published
    assert (task.signature.channels, task.signature.sizes) == (100, (64,))
