import pytest
import torch
from torch import nn

from eclose.signature import Signature
from eclose.spaces import assemble, unit_scale
from eclose.tasks import Scale

SIGNATURES = [
    Signature("classification", 2, (5,), 3),
    Signature("regression", 2, (4, 5), 3),
    Signature("dense", 2, (4, 5), 3),
    Signature("dense", 2, (2, 3, 4), 3),
    Signature("segmentation", 2, (5,), 3),
    Signature("classification", 1, (5,), 3, vocabulary=9),
    Signature("dense", 1, (5,), 3, vocabulary=9),
]


class Spy(nn.Module):
    """Sees its input and answers with twos."""

    def __init__(self, signature):
        super().__init__()
        self.signature = signature
        self.weight = nn.Parameter(torch.tensor(2.0))
        self.seen = None

    def forward(self, x):
        self.seen = x
        return self.weight * torch.ones(self.signature.output_shape(len(x)))


def scale_of(signature):
    x, y = torch.arange(signature.channels) + 1.0, torch.arange(signature.outputs) + 1.0
    if signature.tokens:
        x = torch.ones(1)
    if signature.labels:
        y = torch.ones(1)
    return Scale(10 * x, 2 * x, 100 * y, 3 * y)


def raw(signature, dtype):
    return torch.randint(0, 9, signature.input_shape(4), generator=torch.Generator().manual_seed(0)).to(dtype)


@pytest.mark.parametrize("signature", SIGNATURES)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int64])
def test_raw_values_in_and_out(signature, dtype):
    spy, scale = Spy(signature), scale_of(signature)
    x = raw(signature, dtype)
    y = assemble(spy, signature, scale)(x)
    assert y.shape == signature.output_shape(4)
    if signature.tokens:
        assert spy.seen.dtype == torch.int64
        assert torch.equal(spy.seen, x.long())
    else:
        for channel in range(signature.channels):
            wanted = (x[:, channel].float() - scale.x_mean[channel]) / scale.x_std[channel]
            torch.testing.assert_close(spy.seen[:, channel], wanted)
    for output in range(signature.outputs):
        wanted = 2.0 if signature.labels else 2.0 * scale.y_std[output] + scale.y_mean[output]
        torch.testing.assert_close(y[:, output], torch.full_like(y[:, output], wanted))


@pytest.mark.parametrize("signature", SIGNATURES)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float64])
def test_without_scale_values_are_left_as_they_are(signature, dtype):
    spy = Spy(signature)
    x = raw(signature, dtype)
    y = assemble(spy, signature, None)(x)
    assert spy.seen.dtype == (torch.int64 if signature.tokens else torch.float32)
    assert torch.equal(spy.seen.double(), x.double())
    assert torch.equal(y, torch.full(signature.output_shape(4), 2.0))


@pytest.mark.parametrize("signature", SIGNATURES)
@pytest.mark.parametrize("standardise", [True, False, "pointwise"])
def test_weights_fit_a_network_made_without_data(signature, standardise):
    if standardise == "pointwise" and (signature.kind != "dense" or signature.tokens):
        pytest.skip("only fields on a grid have a scale by point")
    scale = scale_of(signature) if standardise else None
    if standardise == "pointwise":
        grid = torch.rand(signature.sizes)
        scale = Scale(
            *(t.view(-1, *[1] * signature.axes) * grid for t in (scale.x_mean, scale.x_std, scale.y_mean, scale.y_std))
        )
    model = assemble(Spy(signature), signature, scale)
    empty = assemble(Spy(signature), signature, unit_scale(signature, standardise))
    with torch.no_grad():
        next(model.parameters()).fill_(7.0)
    empty.load_state_dict(model.state_dict())
    x = raw(signature, torch.int64)
    assert torch.equal(empty(x), model(x))


def test_the_scale_is_not_trained():
    signature = SIGNATURES[2]
    names = [name for name, _ in assemble(Spy(signature), signature, scale_of(signature)).named_parameters()]
    assert names == ["network.weight"]
