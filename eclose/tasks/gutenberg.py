"""Gutenberg (einspace paper, appendix B.2): who of six authors wrote these three words?"""

import numpy as np

from eclose.tasks.images import IMAGE_CLASSES
from eclose.tasks.letters import one_hot, stored_letters
from eclose.tasks.source import Context, Pairs, Source, named, tasks
from eclose.tasks.stored import stored_arrays, stored_file

_LENGTH, _ALPHABET = 18, 27  # three words of six letters; a to z and the space behind short words


@tasks.register("gutenberg")
def gutenberg(context: Context) -> Source:
    """Gutenberg: three words in a row by one of six authors, one-hot 27 x 18. From gutenberg/*.npz."""
    content = "arrays x_train (n, 18) of letters a-z as 0..25 and space as 26, y_train, x_val, ..."
    path = stored_file(context, "gutenberg/gutenberg_phrases.npz", content)
    parts = ("train", "val", "test")
    letters = stored_letters(path, tuple(f"x_{part}" for part in parts), _LENGTH, _ALPHABET)
    authors = stored_arrays(path, tuple(f"y_{part}" for part in parts))
    pairs: Pairs = {}
    for part in parts:
        images = one_hot(letters[f"x_{part}"], _ALPHABET).transpose(0, 2, 1)  # (n, letter, position)
        pairs[part] = np.ascontiguousarray(images), authors[f"y_{part}"]
    return Source(named(pairs), IMAGE_CLASSES)
