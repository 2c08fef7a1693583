import pytest
import torch

from eclose.backbones import tcn
from eclose.backbones.tcn import enough_levels, sizes
from eclose.errors import ConfigError
from eclose.ops.xd import XD
from eclose.signature import Signature
from eclose.spaces.relaxing.relax import relax


def influence(model, length, at):
    """Where the input counts for the answer at one point."""
    x = torch.randn(1, 1, length, requires_grad=True)
    model.eval()(x)[0, :, at].sum().backward()
    return x.grad[0, 0] != 0


@pytest.mark.parametrize("length", [1, 2, 9, 10, 50, 140])
def test_levels_are_those_it_takes_to_see_the_whole_axis(length):
    levels = enough_levels(length, 5)
    reach = 4 * (2**levels - 1)  # to each side, of 2 convolutions a level
    assert reach >= (length - 1) / 2
    assert levels == 1 or 8 * (2 ** (levels - 1) - 1) < length - 1
    assert enough_levels(10**6, 5) == 8


def test_it_sees_the_whole_signal():
    torch.manual_seed(0)
    model = tcn(Signature("dense", 1, (50,), 2), width=8)
    assert influence(model, 50, 25).all()


def test_a_causal_one_sees_all_of_the_past_and_nothing_else():
    torch.manual_seed(0)
    model = tcn(Signature("dense", 1, (33,), 2), width=8, causal=True)
    assert influence(model, 33, 32).all()
    assert influence(model, 33, 20).tolist() == [place <= 20 for place in range(33)]


@pytest.mark.parametrize("kind", ["dense", "classification"])
def test_a_causal_one_stays_causal_when_relaxed(kind):
    signature = Signature(kind, 1, (17,), 2)
    model = tcn(signature, width=4, causal=True).double().eval()
    x = torch.randn(signature.input_shape(2), dtype=torch.float64)
    relaxed = relax(model, x, tell=None)
    operations = [module for module in relaxed.modules() if isinstance(module, XD)]
    assert operations
    assert all(operation.causal for operation in operations)
    torch.testing.assert_close(relaxed(x), model(x))


def test_sizes_follow_the_length():
    def chosen(space, **options):
        given = {"width": 0, "levels": 0, "kernel": 0, "causal": False, **options}
        return sizes(Signature("classification", 1, space, 2), **given)

    assert chosen((140,)) == {"width": 64, "levels": 5, "kernel": 5, "causal": False}
    assert chosen((28, 28))["levels"] == 3
    assert chosen((100_000,))["levels"] < chosen((100_000,), causal=True)["levels"] == 8


@pytest.mark.parametrize(
    ("space", "options", "text"),
    [
        ((20,), {"kernel": 4}, "backbone.kernel is 4, but 'tcn' needs an odd number"),
        ((20,), {"dropout": -1.0}, "backbone.dropout is -1.0, but 'tcn' needs it in [0, 1)"),
        ((9, 9), {"causal": True}, "backbone.causal is for signals along 1 axis, but an input of this task has 2"),
    ],
)
def test_refusals(space, options, text):
    with pytest.raises(ConfigError) as caught:
        tcn(Signature("classification", 1, space, 3), **options)
    assert str(caught.value) == text
