import torch

from eclose.signature import Signature
from eclose.tasks import Split, Task
from eclose.tasks.task import widened


def split(n=10, dense=False):
    x = torch.arange(n * 6).view(n, 1, 6)
    return Split(x, x[:, 0] * 2 if dense else torch.arange(n), dense=dense)


def test_take_and_all():
    x, y = split().take(torch.tensor([3, 1, 3]))
    assert y.tolist() == [3, 1, 3]
    assert x[:, 0, 0].tolist() == [18, 6, 18]
    assert split().all()[1].tolist() == list(range(10))


def test_select_composes_without_copying():
    whole = split()
    part = whole.select(torch.tensor([9, 2, 5, 7])).select(torch.tensor([0, 2]))
    assert part.all()[1].tolist() == [9, 5]
    assert len(part) == 2
    assert part.x is whole.x
    assert part.take(torch.tensor([1]))[1].tolist() == [5]


def test_nothing_selected():
    part = split().select(torch.tensor([], dtype=torch.long))
    assert len(part) == 0
    assert part.bytes == 0
    assert part.all()[0].shape == (0, 1, 6)


def test_orders_move_x_and_a_dense_y():
    order = torch.tensor([5, 0, 1, 2, 3, 4])
    whole = split(dense=True)
    moved = Split(whole.x, whole.y, orders=(order,), dense=True)
    x, y = moved.take(torch.tensor([1]))
    assert x[0, 0].tolist() == [11, 6, 7, 8, 9, 10]
    assert y[0].tolist() == [22, 12, 14, 16, 18, 20]


def test_bytes_count_the_selected_samples():
    assert split().bytes == 10 * (6 * 8 + 8)
    assert split().select(torch.tensor([1, 2])).bytes == 2 * 56


def test_unsigned_16_bit_numbers_are_widened():
    x = torch.tensor([[65535, 1]], dtype=torch.uint16)
    assert Split(x, x.int()).all()[0].tolist() == [[65535, 1]]
    assert widened(x).dtype == torch.int32
    assert widened(x.to(torch.uint8)).dtype == torch.uint8


def test_splits_by_name():
    task = Task("t", Signature("classification", 1, (6,), 10), split(), split(4), None, None)
    assert {name: len(part) for name, part in task.splits.items()} == {"train": 10, "val": 4}
    changed = task.with_splits({"train": split(3), "val": split(2), "test": split(1)})
    assert {name: len(part) for name, part in changed.splits.items()} == {"train": 3, "val": 2, "test": 1}
    assert changed.name == "t"
