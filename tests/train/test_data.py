import pytest
import torch

from eclose.signature import Signature
from eclose.tasks import Split
from eclose.train import Batches, World, usual_batch
from eclose.train.augment import Augmentation
from eclose.train.data import Feed, training_order

CPU = torch.device("cpu")
LABELLED = Signature("classification", 1, (2,), 4)
DENSE = Signature("dense", 1, (2,), 1)


def split(n=10, dtype=torch.float64):
    x = torch.arange(2 * n).view(n, 1, 2)
    return Split(x.to(torch.uint8), torch.arange(n).to(dtype))


def whole(data):
    return next(data.batches([torch.arange(len(data))]))


def test_batches_in_the_order_asked_for():
    data = Batches(split(), LABELLED, CPU)
    assert len(data) == 10
    indices = [torch.tensor([3, 1]), torch.tensor([9]), torch.tensor([0, 0, 2])]
    got = list(data.batches(indices))
    assert [y.tolist() for _, y in got] == [[3, 1], [9], [0, 0, 2]]
    assert [x[:, 0, 0].tolist() for x, _ in got] == [[6, 2], [18], [0, 0, 4]]


def test_no_batches():
    assert list(Batches(split(), LABELLED, CPU).batches([])) == []


def test_all_samples_once():
    got = list(Batches(split(600), LABELLED, CPU).batches(torch.arange(600).split(256)))
    assert [len(y) for _, y in got] == [256, 256, 88]
    assert torch.cat([y for _, y in got]).tolist() == list(range(600))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.float64, torch.float16])
def test_types_of_targets(dtype):
    assert whole(Batches(split(dtype=dtype), LABELLED, CPU))[1].dtype == torch.int64
    assert whole(Batches(split(dtype=dtype), DENSE, CPU))[1].dtype == torch.float32


def test_inputs_stay_as_they_are():
    assert whole(Batches(split(), LABELLED, CPU))[0].dtype == torch.uint8


def test_a_selected_and_permuted_split():
    part = Split(split().x, split().y, rows=torch.tensor([7, 4]), orders=(torch.tensor([1, 0]),))
    x, y = whole(Batches(part, LABELLED, CPU))
    assert y.tolist() == [7, 4]
    assert x[:, 0].tolist() == [[15, 14], [9, 8]]


class Elsewhere(Batches):
    """As on a device, with the CPU in its place: data that is streamed ahead, or held as one tensor."""

    def __init__(self, whole, resident):
        super().__init__(whole, LABELLED, CPU)
        self._resident = (whole.x, self._target(whole.y)) if resident else None
        self.resident = resident

    def batches(self, indices, *, reuse=False):
        return self._from_device(indices, reuse) if self.resident else self._ahead(indices)


@pytest.mark.parametrize("resident", [True, False])
@pytest.mark.parametrize("sizes", [[1], [2, 3], [4, 4, 2], [1, 1, 1, 1, 1, 1]])
def test_streamed_and_held_data_is_the_same_data(resident, sizes):
    indices = list(torch.randperm(10, generator=torch.Generator().manual_seed(0))[: sum(sizes)].split(sizes))
    wanted = list(Batches(split(), LABELLED, CPU).batches(indices))
    got = list(Elsewhere(split(), resident).batches(indices))
    assert len(got) == len(wanted)
    for (x, y), (wanted_x, wanted_y) in zip(got, wanted, strict=True):
        assert torch.equal(x, wanted_x)
        assert torch.equal(y, wanted_y)


def test_batches_of_the_usual_size_come_in_the_same_tensors():
    """Where that is allowed: a CUDA graph reads them there."""
    data, indices = Elsewhere(split(), resident=True), list(torch.randperm(10).split(4))
    got = []
    for rows, (x, y) in zip(indices, data.batches(indices, reuse=True), strict=True):
        assert torch.equal(x, split().x[rows])
        assert torch.equal(y, split().y[rows].long())
        got.append((x, y))
    assert got[0][0] is got[1][0]
    assert got[0][1] is got[1][1]
    assert len(got[2][0]) == 2
    (again,) = data.batches(indices[:1], reuse=True)
    assert again[0] is got[0][0]


def test_a_stream_may_be_left_early():
    stream = Elsewhere(split(), resident=False).batches(list(torch.arange(10).split(1)))
    assert next(stream)[1].tolist() == [0]
    stream.close()


@pytest.mark.parametrize(
    ("count", "batch", "sizes"),
    [
        (10, 5, [5, 5]),
        (10, 4, [4, 4, 2]),
        (10, 3, [3, 3, 3]),  # a lone last sample is left out
        (10, 20, [10]),
        (1, 8, [1]),  # unless there is no other
        (3, 1, [1, 1]),
        (2, 1, [1]),
    ],
)
def test_training_order(count, batch, sizes):
    order = training_order(count, batch, torch.Generator().manual_seed(0))
    assert [len(rows) for rows in order] == sizes
    rows = torch.cat(order).tolist()
    assert len(set(rows)) == len(rows)
    assert set(rows) <= set(range(count))


def test_the_sample_left_out_changes():
    left_out = set()
    for seed in range(30):
        order = training_order(4, 3, torch.Generator().manual_seed(seed))
        left_out |= set(range(4)) - set(torch.cat(order).tolist())
    assert left_out == {0, 1, 2, 3}


def test_training_order_is_shuffled_by_its_generator():
    first, again, other = (
        torch.cat(training_order(50, 7, torch.Generator().manual_seed(seed))).tolist() for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other
    assert first != sorted(first)


@pytest.mark.parametrize(
    ("count", "batch"),
    [(1, 8), (159, 8), (160, 8), (319, 8), (320, 16), (1000, 32), (1280, 64), (2559, 64), (2560, 128), (10**6, 128)],
)
def test_usual_batch(count, batch):
    assert usual_batch(count) == batch


def feed(seed=0, augment=(), world=None, name="", batch=3):
    made = Augmentation(augment, {}, 0.0)
    return Feed(split(11), Signature("classification", 1, (2,), 11), batch, seed, made, CPU, world or World(), name)


def test_a_feed_gives_every_sample_once_an_epoch_in_another_order():
    first = feed()
    assert first.steps == 4
    assert first.sizes == [3, 3, 3, 2]
    epochs = [[first.batch(number) for number in range(start, start + 4)] for start in (0, 4)]
    orders = [torch.cat([y for _, y, _ in epoch]).tolist() for epoch in epochs]
    assert [size for _, _, size in epochs[0]] == first.sizes
    assert all(sorted(order) == list(range(11)) for order in orders)
    assert orders[0] != orders[1]


@pytest.mark.parametrize("augment", [(), ("flip",)])
def test_a_batch_is_the_same_whoever_asks_and_whenever(augment):
    in_turn, anywhere = feed(augment=augment), feed(augment=augment)
    wanted = [in_turn.batch(number) for number in range(9)]
    for number in (5, 6, 2, 8, 2, 3, 4, 0):
        for one, other in zip(anywhere.batch(number), wanted[number], strict=True):
            assert torch.equal(torch.as_tensor(one), torch.as_tensor(other))


def test_feeds_of_other_seeds_and_names_are_shuffled_otherwise():
    orders = {tuple(feed(**given).batch(0)[1].tolist()) for given in ({}, {"seed": 1}, {"name": "architecture "})}
    assert len(orders) == 3


def test_processes_share_a_batch():
    whole = feed().batch(1)
    shares = [feed(world=World(rank, 2)).batch(1) for rank in (0, 1)]
    assert torch.equal(torch.cat([x for x, _, _ in shares]), whole[0])
    assert [size for _, _, size in shares] == [3, 3]


@pytest.mark.parametrize("augment", [("flip",), ("mix",), ("patch", "mix")])
@pytest.mark.parametrize("batch", [3, 6, 11])
def test_processes_change_samples_as_one_does(augment, batch):
    whole = feed(augment=augment, batch=batch)
    for size in (2, 3, 4):
        for number in range(whole.steps):
            shares = [feed(augment=augment, batch=batch, world=World(rank, size)).batch(number) for rank in range(size)]
            x, y, count = whole.batch(number)
            assert torch.equal(torch.cat([own for own, _, _ in shares]), x)
            assert torch.equal(torch.cat([own for _, own, _ in shares]), y)
            assert [total for _, _, total in shares] == [count] * size
