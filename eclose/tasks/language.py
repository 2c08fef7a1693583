"""Language (einspace paper, appendix B.2): which language are these four words of?"""

import numpy as np

from eclose.tasks.images import IMAGE_CLASSES
from eclose.tasks.letters import Letters, one_hot, stored_letters
from eclose.tasks.source import Context, Source, named, tasks
from eclose.tasks.splits import SHARES, divide
from eclose.tasks.stock import Numbers, Stock, checked_sizes, compose
from eclose.tasks.stored import stored_file

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
