import torch
from torch.utils._python_dispatch import TorchDispatchMode

from eclose.ops.kaleidoscope import dense

from .cases import arbitrary


class Count(TorchDispatchMode):
    """Counts the operations that reach the device, views left out."""

    VIEWS = {"view", "_unsafe_view", "_reshape_alias", "expand", "unsqueeze", "squeeze", "select", "slice", "detach"}
    VIEWS |= {"split_with_sizes", "split", "transpose", "permute", "unbind", "alias", "t", "unsafe_split_with_sizes"}

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function.__name__.split(".")[0] not in self.VIEWS
        return function(*args, **(kwargs or {}))


def operations(matrices):
    with Count() as counter:
        dense(matrices)
    return counter.count


def test_a_batch_costs_the_operations_of_one():
    one, many = (operations([arbitrary((2,) * 6, 3, batch=batch)]) for batch in ((), (12,)))
    assert one == many


def test_operations_grow_with_the_logarithm_of_the_depth():
    """One block: four products and a stack for each of the five joints, parts apart. Then six for each halving."""
    shallow = operations([arbitrary((2,) * 6)])
    assert shallow <= 5 * 5 + 1
    for depth, halvings in ((2, 1), (4, 2), (8, 3), (9, 4)):
        assert operations([arbitrary((2,) * 6, depth)]) <= shallow + 10 * halvings


def test_matrices_of_one_size_are_materialised_together():
    """Three of them, alike in depth only: far from three times the operations."""
    three = [arbitrary((2,) * 6, 1, increasing=increasing) for increasing in (True, False, False)]
    assert operations(three) <= operations(three[:1]) + 8


def test_parts_lie_apart():
    for depth in (1, 3):
        for part in arbitrary((2, 3), depth).dense().unbind(-1):
            assert part.is_contiguous()
    assert torch.equal(arbitrary((2, 3)).dense(), dense([arbitrary((2, 3))])[0])
