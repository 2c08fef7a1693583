"""Pieces of data parallel training, each in two real processes over gloo."""

import copy
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from eclose.ops.first_channels import Norm
from eclose.train.parallel import SharedBatchNorm, SharedNorm, World, share_batch_norm, sum_gradients
from eclose.train.seeds import reseed
from tests.end_to_end.command import forks

ALONE = World()


def _enter(rank: int, size: int, meeting: str, work: Callable[[World], None]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
    try:
        work(World(rank, size))
    finally:
        dist.destroy_process_group()
    os._exit(0)  # threads of gloo may outlive the group, and then abort the ordinary exit


def in_two_processes(work: Callable[[World], None]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        given = 2, str(Path(folder) / "meeting"), work
        mp.start_processes(_enter, given, nprocs=2, start_method=forks().get_start_method())


def _batch_norm(world: World) -> None:
    torch.manual_seed(0)
    x = torch.randn(7, 3, 5, dtype=torch.float64) * 3 + 1
    weight = torch.randn(7, 3, 5, dtype=torch.float64)
    plain = nn.BatchNorm1d(3).double()
    with torch.no_grad():
        plain.weight.copy_(torch.tensor([0.5, 2.0, -1.0]))
    shared = share_batch_norm(nn.Sequential(nn.Identity(), copy.deepcopy(plain)), world)
    assert isinstance(shared[1], SharedBatchNorm)  # type: ignore[index]
    whole = x.clone().requires_grad_()
    (plain(whole) * weight).sum().backward()
    rows = world.share(7)
    part = x[rows].clone().requires_grad_()
    (shared(part) * weight[rows]).sum().backward()
    sum_gradients(shared.parameters(), world)
    torch.testing.assert_close(part.grad, whole.grad[rows])  # type: ignore[index]
    torch.testing.assert_close(shared[1].weight.grad, plain.weight.grad)  # type: ignore[index]
    torch.testing.assert_close(shared[1].running_mean, plain.running_mean)  # type: ignore[index]
    torch.testing.assert_close(shared[1].running_var, plain.running_var)  # type: ignore[index]
    shared.eval(), plain.eval()
    torch.testing.assert_close(shared(x), plain(x))


def _first_channels(world: World) -> None:
    """Wide, then narrow; at last one sample, so that a process has none."""
    torch.manual_seed(0)
    plain = Norm(4).double()
    with torch.no_grad():
        plain.weight.copy_(torch.tensor([0.5, 2.0, -1.0, 3.0]))
    shared = share_batch_norm(nn.Sequential(copy.deepcopy(plain)), world)[0]  # type: ignore[index]
    assert type(shared) is SharedNorm
    for number, channels in ((7, 4), (7, 3), (1, 3)):
        x, weight = torch.randn(2, number, channels, 5, dtype=torch.float64).unbind()
        plain.zero_grad(), shared.zero_grad()
        whole = (3 * x + 1).requires_grad_()
        (plain(whole) * weight).sum().backward()
        rows = world.share(number)
        part = (3 * x + 1)[rows].requires_grad_()
        (shared(part) * weight[rows]).sum().backward()
        sum_gradients(shared.parameters(), world)
        torch.testing.assert_close(part.grad, whole.grad[rows])  # type: ignore[index]
        for name, parameter in plain.named_parameters():
            torch.testing.assert_close(shared.get_parameter(name).grad, parameter.grad)
        torch.testing.assert_close(shared.state_dict(), plain.state_dict())
    torch.testing.assert_close(shared.eval()(x), plain.eval()(x))
    assert shared(x[:0]).shape == (0, 3, 5)


def _gradients(world: World) -> None:
    everywhere, here_or_there, nowhere = (nn.Parameter(torch.ones(2, 3)) for _ in range(3))
    frozen = nn.Parameter(torch.ones(2), requires_grad=False)
    loss = (everywhere * (world.rank + 1)).sum()
    if world.rank == 1:  # a path that only this process sampled
        loss = loss + (5 * here_or_there).sum()
    loss.backward()
    sum_gradients([everywhere, here_or_there, nowhere, frozen], world)
    assert torch.equal(everywhere.grad, torch.full((2, 3), 3.0))  # type: ignore[arg-type]
    assert torch.equal(here_or_there.grad, torch.full((2, 3), 5.0))  # type: ignore[arg-type]
    assert nowhere.grad is None
    assert frozen.grad is None


def _laid_out(world: World) -> None:
    """A gradient lies in memory as its parameter does: fused optimisers walk through both at once."""
    weight = nn.Parameter(torch.zeros(2, 3, 2, 2).to(memory_format=torch.channels_last))
    values = torch.arange(24.0).view(2, 3, 2, 2)
    (weight * values).sum().backward()
    sum_gradients([weight], world)
    assert torch.equal(weight.grad, 2 * values)  # type: ignore[arg-type]
    assert weight.grad.stride() == weight.stride()  # type: ignore[union-attr]


def _sampled_path(world: World) -> None:
    """Every process draws the same path, so that the normalisation in it meets its partners."""
    paths = nn.ModuleList(share_batch_norm(nn.BatchNorm1d(2), world) for _ in range(4))
    taken = []
    for step in range(12):
        reseed(torch.device("cpu"), 7, "step", step)
        taken.append(int(torch.randint(4, ())))
        paths[taken[-1]](torch.randn(3 + world.rank, 2)).square().sum().backward()
        sum_gradients(paths.parameters(), world)
    assert len(set(taken)) > 1
    assert world.gather(taken) == [taken, taken]


def _talk(world: World) -> None:
    assert world.agree(3 if world.rank == 0 else 7) == 3
    assert world.tell({"a": [1]} if world.rank == 0 else None) == {"a": [1]}
    assert world.gather(world.rank) == [0, 1]
    assert float(world.total(torch.tensor([world.rank + 1.0]))) == 3.0


def _everything(world: World) -> None:
    for work in (_batch_norm, _first_channels, _gradients, _laid_out, _sampled_path, _talk):
        work(world)


def test_in_two_processes() -> None:
    in_two_processes(_everything)  # one start of two processes for all: it takes most of the time


def test_alone_nothing_happens() -> None:
    model = nn.Sequential(nn.BatchNorm1d(3))
    assert share_batch_norm(model, ALONE) is model
    assert type(model[0]) is nn.BatchNorm1d
    assert ALONE.agree(5) == 5
    assert ALONE.tell("x") == "x"
    assert ALONE.gather(1) == [1]


@pytest.mark.parametrize("count", [0, 1, 2, 7, 20])
@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_shares_cover_a_batch_once(count: int, size: int) -> None:
    rows = [row for rank in range(size) for row in range(count)[World(rank, size).share(count)]]
    assert rows == list(range(count))
