"""Text as images: letters by number, and their one-hot coding."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eclose.errors import TaskError
from eclose.tasks.stored import stored_arrays

Letters = NDArray[np.uint8]


def stored_letters(path: Path, names: tuple[str, ...], width: int, alphabet: int) -> dict[str, Letters]:
    """Arrays ``(n, width)`` of letters 0 to ``alphabet - 1``."""
    letters = {}
    for name, array in stored_arrays(path, names).items():
        if array.shape[1:] != (width,) or array.dtype != np.uint8 or not len(array) or int(array.max()) >= alphabet:
            raise TaskError(
                f"{path}: '{name}' is {array.dtype} {array.shape}, "
                f"but must be uint8 (n, {width}) with letters 0..{alphabet - 1}: it is another file than the task needs"
            )
        letters[name] = array.astype(np.uint8)
    return letters


def one_hot(letters: Letters, alphabet: int) -> Letters:
    """``(n, positions)`` as ``(n, positions, alphabet)`` of zeros and ones."""
    return np.eye(alphabet, dtype=np.uint8)[letters]
