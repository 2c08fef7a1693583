import torch
from hypothesis import given
from hypothesis import strategies as st

from eclose.train import generator_for, seed_for

PARTS = st.lists(st.integers() | st.text("abcdefgh "), min_size=1, max_size=4)


@given(PARTS)
def test_a_seed_that_torch_takes(parts):
    seed = seed_for(*parts)
    assert 0 <= seed < 2**63
    assert seed == seed_for(*parts)
    torch.Generator().manual_seed(seed)


def test_every_part_counts():
    seeds = {
        seed_for(*parts) for parts in [(0,), (1,), (0, 1), (1, 0), (0, "a"), (0, "b"), (1, 23), (12, 3), (0, 1, 1)]
    }
    assert len(seeds) == 9


def test_written_down():
    """Other seeds would change the results of all runs."""
    assert seed_for(0, "step", 0, 17) == 3621730308208642234


def test_generators_repeat():
    assert torch.equal(torch.rand(5, generator=generator_for(3, "x")), torch.rand(5, generator=generator_for(3, "x")))
    assert not torch.equal(torch.rand(5, generator=generator_for(3)), torch.rand(5, generator=generator_for(4)))


def test_the_global_generator_is_left_alone():
    before = torch.get_rng_state()
    torch.rand(3, generator=generator_for(1))
    assert torch.equal(torch.get_rng_state(), before)
