import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from eclose.errors import TaskError
from eclose.tasks import Reading, task_from_arrays
from eclose.tasks.own_data.dataset import arrays_from_datasets


class Items(Dataset):
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


class Stream(IterableDataset):
    def __iter__(self):
        return iter([])


def refused(datasets):
    with pytest.raises(TaskError) as error:
        arrays_from_datasets(datasets)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_one_dataset_is_x_and_y():
    x, y = torch.arange(12.0).view(6, 2), torch.arange(6)
    arrays = arrays_from_datasets({"": TensorDataset(x, y)})
    assert arrays.keys() == {"x", "y"}
    assert torch.equal(arrays["x"], x)
    assert torch.equal(arrays["y"], y)


def test_named_datasets():
    x, y = torch.arange(12.0).view(6, 2), torch.arange(6)
    arrays = arrays_from_datasets({"train": TensorDataset(x, y), "test": TensorDataset(x[:2], y[:2])})
    assert arrays.keys() == {"x_train", "y_train", "x_test", "y_test"}
    assert torch.equal(arrays["x_test"], x[:2])


@pytest.mark.parametrize(
    ("x", "y", "kind"),
    [
        (lambda i: [float(i), 0.0], lambda i: i % 2, "classification"),
        (lambda i: torch.full((2,), i), lambda i: i / 3, "regression"),
        (lambda i: np.full(2, i, dtype=">f4"), lambda i: np.int64(i % 2), "classification"),
        (lambda i: np.full(2, i, dtype=np.uint16), lambda i: np.float32(i), "regression"),
        (lambda i: np.broadcast_to(np.float32(i), 2), lambda i: np.full(2, i), "segmentation"),
        (lambda i: np.arange(2.0)[::-1] + i, lambda i: [i % 2 == 0, False], "segmentation"),
        (lambda i: [float(i), 0.0], lambda i: ("even", "odd")[i % 2], "classification"),
    ],
)
def test_items_of_any_type(x, y, kind):
    arrays = arrays_from_datasets({"": Items([(x(i), y(i)) for i in range(10)])})
    task = task_from_arrays("t", arrays, Reading())
    assert task.signature.kind == kind
    rows = task.train.rows.tolist()
    np.testing.assert_array_equal(
        task.train.all()[0][:, 0].float().numpy(), np.stack([np.asarray(x(i), dtype=np.float32) for i in rows])
    )


@pytest.mark.parametrize(
    ("dataset", "text"),
    [
        (Items([]), "the dataset 'train' must hold at least one item, and every item must be a pair (x, y)"),
        (Items([1, 2]), "the dataset 'train' must hold at least one item, and every item must be a pair (x, y)"),
        (Items([(1, 2, 3)]), "the dataset 'train' must hold at least one item, and every item must be a pair (x, y)"),
        (Stream(), "the dataset 'train' has no length: hand in a map-style Dataset"),
        (
            Items([(torch.zeros(2), 0), (torch.zeros(3), 0)]),
            "the items of dataset 'train' cannot be stacked: stack expects each tensor to be equal size, "
            "but got [2] at entry 0 and [3] at entry 1",
        ),
        (Items([("a", 0)]), "the items of dataset 'train' cannot be stacked: "),
        (Items([(object(), 0)]), "the items of dataset 'train' cannot be stacked: "),
        (Items([(np.array(["a"]), 0)]), "'item' holds text such as 'a', not numbers: "),
    ],
)
def test_bad_datasets(dataset, text):
    assert refused({"train": dataset}).startswith(text)


def test_unknown_part():
    good = TensorDataset(torch.zeros(3, 2), torch.zeros(3))
    text = refused({"train": good, "valid": good})
    assert text == "unknown part 'valid' of the data; known: train, val, test"
