"""Channels last: where, and with the same names, values and trainings."""

import copy

import pytest
import torch
from torch import nn

from eclose.backbones import make_backbone
from eclose.ops.xd import XD
from eclose.signature import Signature
from eclose.train import GradientStep, Objective, World
from eclose.train.checkpoint import load_state, save_state
from eclose.train.losses import make_loss
from eclose.train.memory_layout import laid_out_as, lay_out
from eclose.train.optimisers import make_optimiser, parameter_groups

CPU, GPU = torch.device("cpu"), torch.device("cuda")
IMAGES = Signature("classification", channels=3, sizes=(12, 12), outputs=4)


def network():
    torch.manual_seed(0)
    return make_backbone("resnet", IMAGES, {"width": 4})


def last(model):
    """Which of the weights over space have their channels last."""
    spatial = [parameter for parameter in model.parameters() if parameter.ndim == 4 and parameter[0, 0].numel() > 1]
    return [parameter.is_contiguous(memory_format=torch.channels_last) for parameter in spatial]


@pytest.mark.parametrize(
    ("precision", "device"), [("tf32", GPU), ("bfloat16", GPU), ("float16", GPU), ("float32", CPU), ("bfloat16", CPU)]
)
def test_the_same_network(precision, device):
    model = network().eval()
    laid = copy.deepcopy(model)
    lay_out(laid, precision, device)
    assert all(last(laid))
    assert not any(last(model))
    x = torch.randn(2, 3, 12, 12)
    torch.testing.assert_close(laid(x), model(x))
    assert laid.state_dict().keys() == model.state_dict().keys()
    for one, other in zip(laid.state_dict().values(), model.state_dict().values(), strict=True):
        assert torch.equal(one, other)


def test_exact_products_on_a_gpu_keep_channels_first():
    model = network()
    lay_out(model, "float32", GPU)
    assert not any(last(model))


def test_networks_with_other_layers_over_space_stay():
    relaxed = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), XD.from_conv(nn.Conv2d(4, 4, 3, padding=1), (6, 6)))
    lay_out(relaxed, "tf32", GPU)
    assert not any(last(relaxed))


@pytest.mark.parametrize(("precision", "moved"), [("tf32", False), ("bfloat16", True)])
def test_depthwise_convolutions_in_single_precision_stay(precision, moved):
    separable = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3, groups=4), nn.Conv2d(4, 4, 1))
    lay_out(separable, precision, GPU)
    assert last(separable)[0] == moved  # of one channel a group, both layouts are the same


def step_of(model):
    groups = parameter_groups(model, 0.01, 0.1, decay_vectors=False)
    optimisers = [make_optimiser("adamw", groups, {})]
    return GradientStep(
        model, Objective(make_loss("cross_entropy", {}), None), optimisers, 1.0, "float32", CPU, World()
    )


def test_a_training_goes_on_with_the_same_bits(tmp_path):
    """Files know nothing of layouts; fused optimisers need state that lies as the weights do."""
    generator = torch.Generator().manual_seed(1)
    batches = [(torch.randn(4, 3, 12, 12, generator=generator), torch.arange(4)) for _ in range(4)]
    model = network()
    lay_out(model, "tf32", GPU)
    step = step_of(model)
    for place, (x, y) in enumerate(batches):
        if place == 2:
            save_state(tmp_path / "state", {"model": dict(model.state_dict()), "step": step.state_dict()})
        step(x, y, 4)
    resumed = network()
    lay_out(resumed, "tf32", GPU)
    other, saved = step_of(resumed), load_state(tmp_path / "state")
    resumed.load_state_dict(saved["model"])
    other.load_state_dict(saved["step"])
    for state in other.optimisers[0].state.items():
        assert state[1]["exp_avg"].stride() == state[0].stride()
    for x, y in batches[2:]:
        other(x, y, 4)
    for one, two in zip(model.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, two)


def test_only_what_differs_is_copied():
    like = torch.zeros(2, 3, 4, 4).to(memory_format=torch.channels_last)
    tensor, scalar = torch.randn(2, 3, 4, 4), torch.tensor(3.0)
    laid = laid_out_as(tensor, like)
    assert laid.stride() == like.stride()
    assert torch.equal(laid, tensor)
    assert laid_out_as(laid, like) is laid
    assert laid_out_as(scalar, like) is scalar
