import numpy as np
import pytest

from eclose.errors import TaskError
from eclose.tasks.published.words import one_hot, stored_letters

WORDS = np.array([[0, 3], [2, 2], [1, 0]], dtype=np.uint8)


def test_one_hot():
    got = one_hot(WORDS, 5)
    assert got.shape == (3, 2, 5)
    assert got.dtype == np.uint8
    for n in range(3):
        for position in range(2):
            assert got[n, position].tolist() == [int(letter == WORDS[n, position]) for letter in range(5)]


def test_letters_of_a_file(tmp_path):
    path = tmp_path / "words.npz"
    np.savez(path, a=WORDS, b=WORDS[:1], other=np.zeros(3))
    got = stored_letters(path, ("a", "b"), 2, 4)
    assert list(got) == ["a", "b"]
    np.testing.assert_array_equal(got["a"], WORDS)
    with pytest.raises(TaskError) as error:
        stored_letters(path, ("a", "c"), 2, 4)
    assert str(error.value) == f"{path} has no array 'c': it is another file than the task needs"


@pytest.mark.parametrize(
    ("array", "what"),
    [
        (WORDS + np.uint8(1), "uint8 (3, 2)"),  # a letter beyond the alphabet
        (WORDS.astype(float), "float64 (3, 2)"),
        (WORDS[:, :1], "uint8 (3, 1)"),
        (WORDS[:0], "uint8 (0, 2)"),
        (WORDS[0], "uint8 (2,)"),
        (np.uint8(3), "uint8 ()"),
    ],
)
def test_other_arrays(tmp_path, array, what):
    path = tmp_path / "words.npz"
    np.savez(path, a=array)
    with pytest.raises(TaskError) as error:
        stored_letters(path, ("a",), 2, 4)
    wanted = "but must be uint8 (n, 2) with letters 0..3: it is another file than the task needs"
    assert str(error.value) == f"{path}: 'a' is {what}, {wanted}"
