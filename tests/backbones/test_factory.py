import pytest
import torch
from torch import nn

from eclose.backbones import backbones, check_output, default_backbone, make_backbone
from eclose.errors import ConfigError
from eclose.signature import Signature

IMAGE = Signature("classification", 3, (8, 8), 4)


def refusal(name, signature, options=None):
    with pytest.raises(ConfigError) as caught:
        make_backbone(name, signature, options or {})
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("classification", "resnet"), ("regression", "resnet"), ("dense", "unet"), ("segmentation", "unet")],
)
@pytest.mark.parametrize("space", [(9,), (4, 3), (3, 3, 2)])
def test_the_default_fits(kind, name, space):
    signature = Signature(kind, 2, space, 5)
    assert default_backbone(signature) == name
    check_output(make_backbone(name, signature, {}), signature, name)


def test_names():
    assert sorted(backbones) == ["cnn", "fno", "lenet", "resnet", "resnet20", "unet", "wrn40-4"]


def test_unknown_name():
    assert refusal("resnet2", IMAGE) == (
        "unknown backbone 'resnet2'; did you mean 'resnet20'? known: cnn, fno, lenet, resnet, resnet20, unet, "
        "wrn40-4; your own network is named as package.module:attribute"
    )


def test_unknown_option():
    text = refusal("resnet20", IMAGE, {"with": 3})
    assert text == "backbone: 'resnet20' has no option 'with'; did you mean 'width'? known: width"


def test_wrong_type_of_option():
    assert refusal("resnet20", IMAGE, {"width": "wide"}) == "backbone.width is 'wide', but must be a whole number"


def test_options_arrive():
    assert make_backbone("resnet20", IMAGE, {"width": 5})[0].out_channels == 5
    assert make_backbone("lenet", IMAGE, {"widths": [2, 3]})[0].out_channels == 2


@pytest.mark.parametrize("name", ["lenet", "resnet", "resnet20", "wrn40-4"])
def test_one_answer_a_sample_only(name):
    assert refusal(name, Signature("dense", 1, (32, 32), 1)) == (
        f"backbone '{name}' gives one answer a sample and cannot do dense; choose unet, fno or cnn"
    )


def test_an_answer_at_every_position_only():
    assert refusal("unet", IMAGE) == (
        "backbone 'unet' gives an answer at every position and cannot do classification; choose resnet, fno or cnn"
    )


@pytest.mark.parametrize("name", sorted(backbones))
def test_number_of_axes(name):
    assert refusal(name, Signature("regression", 1, (4, 4, 4, 4), 1)) == (
        f"backbone '{name}' works on 1 to 3 space axes, but an input of this task has 4; "
        "reshape x to (N, channels, *space) or give a network of your own as package.module:attribute"
    )


def test_tokens_on_one_axis():
    assert refusal("resnet", Signature("classification", 1, (4, 5), 2, vocabulary=9)) == (
        "backbone 'resnet' reads tokens along 1 axis, but an input of this task has 2; reshape x to (N, length)"
    )


def test_tokens_pass_through_an_embedding():
    signature = Signature("classification", 1, (12,), 2, vocabulary=9)
    model = make_backbone("resnet", signature, {})
    assert model.embedding.table.weight.shape == (9, 64)
    assert model.network[0].in_channels == 64
    check_output(model, signature, "resnet")


class Recorder(nn.Module):
    """Gives zeros of a fixed shape and keeps what it was called with."""

    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.scale = nn.Parameter(torch.ones((), dtype=torch.float64))
        self.frozen = nn.BatchNorm1d(2).eval()
        self.seen = []

    def forward(self, x):
        self.seen.append((x, self.training, torch.is_grad_enabled()))
        return torch.zeros(self.shape)


def test_check_runs_two_inputs_once_and_leaves_no_trace():
    model = Recorder((2, 4))
    state = torch.random.get_rng_state()
    check_output(model, IMAGE, "mine")
    [(x, training, grad)] = model.seen
    assert x.shape == (2, 3, 8, 8)
    assert x.dtype == torch.float64
    assert (training, grad) == (False, False)
    assert model.training
    assert not model.frozen.training
    assert torch.equal(state, torch.random.get_rng_state())


def test_check_gives_token_numbers():
    model = Recorder((2, 4))
    check_output(model, Signature("classification", 1, (50,), 4, vocabulary=3), "mine")
    x = model.seen[0][0]
    assert x.shape == (2, 50)
    assert x.dtype == torch.long
    assert sorted(x.unique().tolist()) == [0, 1, 2]


def check_refusal(model, signature=IMAGE):
    model.train()
    with pytest.raises(ConfigError) as caught:
        check_output(model, signature, "mine")
    assert model.training
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_check_names_both_shapes():
    assert check_refusal(Recorder((2, 10))) == (
        "backbone 'mine' gives (2, 10) for an input of shape (2, 3, 8, 8), but this classification task "
        "needs (2, 4); change its last layers or choose another backbone"
    )


def test_check_wants_a_tensor():
    class Pair(nn.Module):
        def forward(self, x):
            return x, x

    assert check_refusal(Pair()).startswith("backbone 'mine' gives a tuple for an input of shape (2, 3, 8, 8)")


def test_check_turns_failures_into_one_line():
    class Broken(nn.Module):
        def forward(self, x):
            raise RuntimeError("two\n  lines")

    assert check_refusal(Broken()) == (
        "backbone 'mine' failed on an input of shape (2, 3, 8, 8): RuntimeError: two lines; "
        "for this task it must map (2, 3, 8, 8) to (2, 4)"
    )


def test_check_of_a_network_for_other_channels():
    other = make_backbone("resnet20", Signature("classification", 1, (8, 8), 4), {})
    assert "RuntimeError" in check_refusal(other)
