"""The device of these tests refuses and notes what it should, and computes what the CPU computes."""

import copy

import pytest
import torch
from torch import nn

from tests.devices.elsewhere import DEVICE, Elsewhere, elsewhere

MIXED = {
    "a sum": lambda x: x + torch.zeros(2, 3),
    "a product": lambda x: x @ torch.zeros(3, 2),
    "numbers side by side": lambda x: torch.stack([x.sum(), torch.tensor(1.0)]),
    "a tensor of the CPU by an index of the device": lambda x: torch.zeros(3)[x[0].long()],
    "random numbers of the CPU": lambda x: torch.rand(3, generator=torch.Generator(), device=x.device),
    "a layer of the CPU": lambda x: nn.Linear(3, 2)(x),
}
CROSSING = {
    "a number is read": lambda x: x.sum().item(),
    "a list is read": lambda x: x.tolist(),
    "a choice": lambda x: 1 if x.sum() > 0 else 2,
    "rows by a mask": lambda x: x[x[:, 0] > 0],
    "an index of the CPU": lambda x: x[torch.tensor([1])],
    "a copy from the CPU": lambda x: x + torch.ones(3).to(x.device),
    "a constant from the CPU": lambda x: x + torch.tensor([1.0, 2.0, 3.0], device=x.device),
    "a copy to the CPU": lambda x: x.cpu(),
    "a copy in place": lambda x: x.copy_(torch.zeros(2, 3)),
}
STAYING = {
    "numbers": lambda x: 2 * x + torch.tensor(1.0),
    "a new tensor": lambda x: x + torch.arange(3, device=x.device),
    "a slice": lambda x: x[:, 1:].clamp(min=0),
    "a choice of values": lambda x: torch.where(x > 0, x, 0.0),
    "random numbers": lambda x: x + torch.rand(3, device=x.device),
}


@pytest.mark.parametrize("what", MIXED)
def test_both_devices_in_one_operation_are_refused(what):
    with elsewhere(), pytest.raises(RuntimeError, match="of the (CPU|cpu)"):
        MIXED[what](torch.ones(2, 3).to(DEVICE))


@pytest.mark.parametrize("what", CROSSING)
def test_waits_and_copies_are_noted(what):
    with elsewhere() as notes:
        x = torch.ones(2, 3).to(DEVICE)
        notes.clear()
        CROSSING[what](x)
        assert notes


@pytest.mark.parametrize("what", STAYING)
def test_what_stays_on_the_device_is_not(what):
    with elsewhere() as notes:
        x = torch.ones(2, 3).to(DEVICE)
        notes.clear()
        assert STAYING[what](x).device == DEVICE
        assert notes == []


def test_values_gradients_and_steps_are_those_of_the_cpu():
    torch.manual_seed(0)
    here = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.GELU(), nn.Flatten(), nn.Linear(27, 2))
    there, x = copy.deepcopy(here), torch.randn(4, 1, 5, 5)
    first = next(there.parameters())
    here(x).square().sum().backward()
    torch.optim.AdamW(here.parameters()).step()
    with elsewhere():
        there.to(DEVICE)
        assert next(there.parameters()) is first  # as on a GPU: a parameter stays the same object
        there(x.to(DEVICE)).square().sum().backward()
        torch.optim.AdamW(there.parameters()).step()
    for one, other in zip(here.state_dict().values(), there.state_dict().values(), strict=True):
        assert isinstance(other, Elsewhere)
        assert torch.equal(one, other.values)
