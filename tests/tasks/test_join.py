"""Two splits as one, compared with their concatenation."""

import pytest
import torch

from eclose.tasks import Split
from eclose.tasks.splits import join


def split(start: int, count: int, **options: torch.Tensor | tuple[torch.Tensor, ...]) -> Split:
    x = torch.arange(start, start + 6 * count).reshape(count, 2, 3)
    return Split(x, x[:, 0, 0] % 5, **options)  # type: ignore[arg-type]


SPLITS = [
    (split(0, 7), split(100, 4)),
    (split(0, 7, rows=torch.tensor([5, 1, 6])), split(100, 4, rows=torch.tensor([0]))),
    (split(0, 5, orders=(torch.tensor([2, 0, 1]),)), split(100, 3, orders=(torch.tensor([2, 0, 1]),))),
    (split(0, 1), split(100, 9)),
]


@pytest.mark.parametrize(("first", "second"), SPLITS)
def test_it_is_the_concatenation(first: Split, second: Split) -> None:
    joined = join(first, second)
    parts = zip(first.all(), second.all(), strict=True)
    wanted_x, wanted_y = (torch.cat(pair) for pair in parts)
    assert len(joined) == len(first) + len(second) == len(wanted_x)
    assert joined.bytes == first.bytes + second.bytes
    x, y = joined.all()
    assert torch.equal(x, wanted_x)
    assert torch.equal(y, wanted_y)
    for seed in range(5):
        index = torch.randperm(len(joined), generator=torch.Generator().manual_seed(seed))[: 1 + seed]
        x, y = joined.take(index)
        assert torch.equal(x, wanted_x[index])
        assert torch.equal(y, wanted_y[index])
        chosen = joined.select(index)
        assert len(chosen) == len(index)
        assert torch.equal(chosen.take(torch.tensor([0]))[0], wanted_x[index[:1]])


def test_three_splits() -> None:
    joined = join(join(split(0, 2), split(100, 3)), split(200, 1))
    assert joined.all()[0][:, 0, 0].tolist() == [0, 6, 100, 106, 112, 200]
