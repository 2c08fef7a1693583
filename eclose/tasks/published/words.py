"""Language and Gutenberg (einspace paper, appendix B.2): of which language, or by whom, are these words?"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eclose.errors import TaskError
from eclose.tasks.published.images import IMAGE_CLASSES
from eclose.tasks.published.stock import Numbers, Stock, checked_sizes, compose
from eclose.tasks.source import Context, Pairs, Source, named, stored_arrays, stored_file, tasks
from eclose.tasks.splits import SHARES, divide

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


_LANGUAGES = (
    "english",
    "dutch",
    "german",
    "spanish",
    "french",
    "portuguese",
    "swedish",
    "zulu",
    "swahili",
    "finnish",
)
_WORDS, _LENGTH, _ALPHABET = 4, 6, 24  # in a sample, in a word, a to x
_FILE = "language_words/six_letter_words.npz"


@tasks.register("language")
def language(context: Context, *, train: int = 50000, val: int = 10000, test: int = 10000) -> Source:
    """Language: four six-letter words of one of ten languages, one-hot 24 x 24. From language_words/*.npz."""
    sizes = checked_sizes(len(_LANGUAGES), train, val, test)
    content = "arrays english, dutch, ... (n, 6) of letters a-x as 0..23, see docs/guide/data.md"
    from_file = stored_letters(stored_file(context, _FILE, content), _LANGUAGES, _LENGTH, _ALPHABET)
    return Source(named(compose(sizes, len(_LANGUAGES), _stocks(from_file), _images)), IMAGE_CLASSES)


def _stocks(words: dict[str, Letters]) -> dict[str, Stock]:
    """Words by part. A word of several languages is in the same part in all, so that test words are new ones."""
    letters = np.concatenate([words[name] for name in _LANGUAGES])
    languages = np.repeat(np.arange(len(_LANGUAGES)), [len(words[name]) for name in _LANGUAGES])
    codes = letters @ _ALPHABET ** np.arange(_LENGTH)
    distinct, numbers = np.unique(codes, return_inverse=True)
    stocks = {}
    for part, chosen in divide(len(distinct), SHARES).items():
        rows = np.flatnonzero(np.isin(numbers, chosen.numpy()))
        stocks[part] = Stock(letters, languages, rows).require(len(_LANGUAGES), 1, f"words of {_FILE} for {part}")
    return stocks


def _images(words: Stock, labels: Numbers, rng: np.random.Generator) -> Letters:
    drawn = words.draw(np.repeat(labels[:, None], _WORDS, axis=1), rng)
    return one_hot(words.pieces[drawn].reshape(len(labels), _WORDS * _LENGTH), _ALPHABET)  # (n, position, letter)


_PHRASE, _WITH_SPACE = 18, 27  # three words of six letters; a to z and the space behind short words


@tasks.register("gutenberg")
def gutenberg(context: Context) -> Source:
    """Gutenberg: three words in a row by one of six authors, one-hot 27 x 18. From gutenberg/*.npz."""
    content = "arrays x_train (n, 18) of letters a-z as 0..25 and space as 26, y_train, x_val, ..."
    path = stored_file(context, "gutenberg/gutenberg_phrases.npz", content)
    parts = ("train", "val", "test")
    letters = stored_letters(path, tuple(f"x_{part}" for part in parts), _PHRASE, _WITH_SPACE)
    authors = stored_arrays(path, tuple(f"y_{part}" for part in parts))
    pairs: Pairs = {}
    for part in parts:
        images = one_hot(letters[f"x_{part}"], _WITH_SPACE).transpose(0, 2, 1)  # (n, letter, position)
        pairs[part] = np.ascontiguousarray(images), authors[f"y_{part}"]
    return Source(named(pairs), IMAGE_CLASSES)
