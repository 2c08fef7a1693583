import random
import statistics

import numpy as np
import pytest

from eclose.config import TaskSection
from eclose.errors import TaskError
from eclose.tasks import load_task
from eclose.tasks.puzzles.listops import TOKENS, Rules, expressions

LRA = Rules(depth=10, arguments=10, shortest=501, longest=1999)
SMALL = Rules(depth=4, arguments=5, shortest=4, longest=60)


def written(tokens):
    """An expression as text; nothing may follow the first padding."""
    words = [TOKENS[token] for token in tokens]
    length = words.index("") if "" in words else len(words)
    assert not any(words[length:])
    return words[:length]


def read(words, start=0):
    """A tree of the words from ``start``, and where it ends: a slow reader that knows nothing of the generator."""
    if words[start].isdigit():
        return int(words[start]), start + 1
    name, parts, place = words[start], [], start + 1
    while words[place] != "]":
        part, place = read(words, place)
        parts.append(part)
    return (name, parts), place + 1


def evaluate(tree):
    if isinstance(tree, int):
        return tree
    values = [evaluate(part) for part in tree[1]]
    rules = {"[MIN": min, "[MAX": max, "[MED": lambda v: int(statistics.median(v)), "[SM": lambda v: sum(v) % 10}
    return rules[tree[0]](values)


def operators(tree, level=1):
    """Level and number of arguments of every operator."""
    if not isinstance(tree, int):
        yield level, len(tree[1])
        for part in tree[1]:
            yield from operators(part, level + 1)


@pytest.mark.parametrize(
    ("rules", "count"), [(LRA, 30), (SMALL, 300), (Rules(2, 2, 4, 4), 50), (Rules(30, 3, 5, 17), 50)]
)
def test_expressions_keep_the_rules_and_have_their_values(rules, count):
    x, y = expressions(count, rules, seed=0)
    assert x.shape == (count, rules.width)
    assert len({row.tobytes() for row in x}) == count
    for tokens, value in zip(x, y, strict=True):
        words = written(tokens)
        tree, end = read(words)
        assert end == len(words)
        assert evaluate(tree) == value
        assert rules.shortest <= len(words) <= rules.longest
        levels, arguments = zip(*operators(tree), strict=True)
        assert max(levels) < rules.depth
        assert set(arguments) <= set(range(2, rules.arguments + 1))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[MAX 4 3 [MIN 2 3 ] 1 0 [MED 1 5 8 9 2 ] ]", 5),  # of the Long Range Arena
        ("[MED 7 6 3 3 6 5 ]", 5),  # the median of an even count is truncated
        ("[SM 9 [SM 1 1 ] 9 ]", 0),
    ],
)
def test_the_slow_reader(text, value):
    tree, _ = read(text.split())
    assert evaluate(tree) == value


def drawn(rules, generator, level=1):
    """The published generator as it is told: the words of a random tree."""
    if level == rules.depth or generator.random() > 0.25:
        return [str(generator.randrange(10))]
    arguments = [drawn(rules, generator, level + 1) for _ in range(generator.randint(2, rules.arguments))]
    return [generator.choice(["[MIN", "[MAX", "[MED", "[SM"]), *sum(arguments, []), "]"]


def test_lengths_and_words_are_as_frequent_as_those_of_the_published_generator():
    generator = random.Random(0)
    rules = Rules(depth=5, arguments=6, shortest=20, longest=100)
    theirs = []
    while len(theirs) < 1500:
        words = drawn(rules, generator)
        if rules.shortest <= len(words) <= rules.longest:
            theirs.append(words)
    x, _ = expressions(1500, rules, seed=0)
    ours = [written(tokens) for tokens in x]
    quartiles = [np.quantile([len(words) for words in side], [0.25, 0.5, 0.75]) for side in (ours, theirs)]
    np.testing.assert_allclose(*quartiles, rtol=0.08)
    for token in TOKENS[1:]:
        shares = [sum(words.count(token) for words in side) / sum(map(len, side)) for side in (ours, theirs)]
        assert shares[0] == pytest.approx(shares[1], rel=0.08), token


def test_a_seed_decides_and_more_samples_begin_with_the_same():
    x, y = expressions(40, SMALL, seed=3)
    more, _ = expressions(90, SMALL, seed=3)
    other, _ = expressions(40, SMALL, seed=4)
    np.testing.assert_array_equal(more[:40], x)
    np.testing.assert_array_equal(expressions(40, SMALL, seed=3)[1], y)
    assert (other != x).any()


def test_progress_ends_with_all():
    told = []
    expressions(40, SMALL, seed=0, progress=lambda done, total: told.append((done, total)))
    assert told[0] == (0, 40)
    assert told[-1] == (40, 40)


REFUSED = {
    "depth is 1, but must lie between 2 and 100": {"depth": 1},
    "arguments is 1, but must lie between 2 and 100": {"arguments": 1},
    "shortest is 30 and longest 20, but 4 <= shortest <= longest <= 65536 must hold": {"shortest": 30, "longest": 20},
    "only 0 of 30 different expressions of 501 to 1999 tokens found with depth 2 and 10 arguments: allow more of "
    "these, or ask for fewer samples": {"depth": 2},
    "seed must lie between 0 and 2**63 - 1, got -1": {"seed": -1},
    "train, val and test must be at least 1, got {'train': 10, 'val': 0, 'test': 10}": {"val": 0},
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_cannot_be_is_refused(reason):
    options = {"train": 10, "val": 10, "test": 10, **REFUSED[reason]}
    with pytest.raises(TaskError) as error:
        load_task(TaskSection(name="listops", options=options), lambda done, total: None)
    assert str(error.value) == f"task listops: {reason}"
