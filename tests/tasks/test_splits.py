import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eclose.tasks.splits import SHARES, divide, spread

WRITTEN_DOWN = {"train": [0, 2, 4, 5, 7, 8, 9], "val": [6], "test": [1, 3]}
LABELS = st.lists(st.integers(0, 6), min_size=1, max_size=200)


@settings(max_examples=200, deadline=None)
@given(LABELS, st.booleans(), st.sampled_from([SHARES, {"train": 0.7, "val": 0.15}, {"a": 3, "b": 1}, {"a": 1.0}]))
def test_disjoint_complete_ascending_and_of_the_right_size(labels, stratified, shares):
    count = len(labels)
    parts = divide(count, shares, torch.tensor(labels) if stratified else None)
    assert list(parts) == list(shares)
    rows = torch.cat(list(parts.values()))
    assert sorted(rows.tolist()) == list(range(count))
    for name, part in parts.items():
        assert part.tolist() == sorted(part.tolist())
        assert abs(len(part) - count * shares[name] / sum(shares.values())) <= 1


@settings(max_examples=200, deadline=None)
@given(LABELS)
def test_every_class_is_divided_alike(labels):
    tensor = torch.tensor(labels)
    parts = divide(len(labels), SHARES, tensor)
    for label in set(labels):
        size = labels.count(label)
        for name, share in SHARES.items():
            got = int((tensor[parts[name]] == label).sum())
            assert abs(got - share * size) < 2, (label, name)
        if size >= 2:
            assert (tensor[parts["train"]] == label).any()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int64])
def test_the_type_of_labels_does_not_matter(dtype):
    labels = torch.arange(250) % 7
    wanted = divide(250, SHARES, labels)
    got = divide(250, SHARES, labels.to(dtype))
    assert all(torch.equal(got[name], wanted[name]) for name in SHARES)


def test_the_same_in_every_run():
    """Written down: another order would make results of other versions incomparable."""
    torch.manual_seed(1)
    assert divide(10, SHARES)["test"].tolist() == divide(10, SHARES)["test"].tolist()
    parts = {name: rows.tolist() for name, rows in divide(10, SHARES).items()}
    assert parts == WRITTEN_DOWN
    torch.manual_seed(2)
    assert {name: rows.tolist() for name, rows in divide(10, SHARES).items()} == parts


def test_shuffled():
    train = divide(1000, SHARES)["train"]
    assert abs(float(train.double().mean()) - 499.5) < 20
    assert train.tolist() != list(range(len(train)))
    assert divide(1000, SHARES)["val"].tolist() != list(range(700, 850))


@pytest.mark.parametrize("count", [0, 1, 7, 32, 1000, 2**24 + 4])  # single precision rounds the last one up
def test_numbers_that_are_evenly_spread_are_all_there(count):
    rows = spread(count, 32).tolist()
    assert rows == sorted(set(rows))
    assert len(rows) == min(count, 32)
    assert not rows or (rows[0] == 0 and count - 2 <= rows[-1] < max(count, 2))
