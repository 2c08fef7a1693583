import pytest
import torch

from eclose.backbones import kim
from eclose.config import Config
from eclose.errors import ConfigError
from eclose.ops.xd import XD
from eclose.signature import Signature
from eclose.spaces import make_space

SENTENCES = Signature("classification", 100, (64,), 2)
SMALL = Signature("classification", 5, (12,), 3)


def test_parameters_by_hand():
    count = sum(parameter.numel() for parameter in kim(SENTENCES).parameters())
    assert count == 100 * 100 * (3 + 4 + 5) + 3 * 100 + 300 * 2 + 2


def test_it_is_the_network_of_the_paper():
    """Every window of words against every filter, in a loop; dropout aside."""
    network = kim(SMALL, filters=4).eval()
    x = torch.randn(2, 5, 12)
    features = []
    for layer, width in zip(network[0].convolutions, (3, 4, 5), strict=True):
        padded = torch.nn.functional.pad(x, (width // 2, width // 2))
        windows = [padded[:, :, start : start + width] for start in range(padded.shape[2] - width + 1)]
        answers = [torch.einsum("bcw,ocw->bo", window, layer.weight) + layer.bias for window in windows]
        features.append(torch.stack(answers).relu().max(0).values)
    torch.testing.assert_close(network(x), network[2](torch.cat(features, 1)))


def test_a_linear_layer_in_place_of_its_convolutions():
    """Chrysalis paper, C.2.1: a single one, and ReLU; the rest is the same."""
    network = kim(SMALL, layers="linear").eval()
    assert [type(layer).__name__ for layer in network] == ["Flatten", "Linear", "ReLU", "Dropout", "Linear"]
    assert [(layer.in_features, layer.out_features) for layer in (network[1], network[4])] == [(60, 300), (300, 3)]
    x = torch.randn(2, 5, 12)
    torch.testing.assert_close(network(x), network[4](network[1](x.reshape(2, 60)).relu()))


def test_dropout_is_that_of_the_answer():
    network = kim(SMALL, filters=50)
    x = torch.randn(1, 5, 12)
    kept = network[1](network[0](x))
    assert 0.3 < float((kept == 0).float().mean()) < 0.8
    assert torch.equal(network.eval()(x), network(x))


@pytest.mark.parametrize("space", ["xd", "chrysalis"])
def test_its_convolutions_become_operations(space):
    begin = {"space.begin": "warm"} if space == "chrysalis" else {}
    values = {"space.name": space, "backbone.name": "kim", "backbone.filters": 3, **begin}
    made = make_space(Config().with_values(values))
    torch.manual_seed(0)
    plain = kim(SMALL, filters=3).eval()
    torch.manual_seed(0)
    relaxed = made.supernet(made.start(SMALL), SMALL).eval()
    assert [type(layer) for layer in relaxed[0].convolutions] == [XD] * 3
    x = torch.randn(4, 5, 12)
    torch.testing.assert_close(relaxed(x), plain(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"widths": ()}, "backbone.widths is empty, but kim needs at least one width, e.g. [3, 4, 5]"),
        ({"filters": 0}, "backbone.filters is 0, but 'kim' needs it to be at least 1"),
        ({"layers": "k"}, "backbone.layers is 'k', but kim knows convolution and linear"),
        ({"dropout": 1.0}, "backbone.dropout is 1.0, but 'kim' needs it in [0, 1)"),
    ],
)
def test_refusals(options, text):
    with pytest.raises(ConfigError) as caught:
        kim(SENTENCES, **options)
    assert str(caught.value) == text
