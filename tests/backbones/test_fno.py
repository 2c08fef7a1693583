import pytest
import torch
from torch import nn

from eclose.backbones import cnn, fno, make_backbone
from eclose.backbones.fno import with_coordinates
from eclose.errors import ConfigError
from eclose.signature import Signature

DARCY = Signature("dense", 1, (85, 85), 1)


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


def test_darcy_twin_has_the_parameters_of_table_4():
    lift = (1 + 2) * 32 + 32  # one input channel and two coordinates
    convolution = 32 * 32 * 13 * 13  # modes + 1 = 13 taps along each axis, no bias
    pointwise = 32 * 32 + 32
    norm = 2 * 32
    projection = 32 * 128 + 128 + 128 * 1 + 1
    by_hand = lift + 4 * (convolution + pointwise + norm) + projection
    assert count(cnn(DARCY, norm=True)) == by_hand == 701_185
    assert count(cnn(DARCY)) == by_hand - 4 * norm == 700_929
    assert round(by_hand / 1e6, 3) == round((by_hand - 4 * norm) / 1e6, 3) == 0.701


@pytest.mark.parametrize(("axes", "width", "modes"), [(1, 64, 16), (2, 32, 12), (3, 20, 4)])
def test_fno_sizes_by_axes(axes, width, modes):
    signature = Signature("dense", 2, ((40,), (24,) * 2, (24,) * 3)[axes - 1], 3)
    spectral = width * width * 2 ** (axes - 1) * modes**axes * 2
    block = spectral + width * width + width
    by_hand = (2 + axes + 1) * width + 4 * block + (width + 1) * 128 + 129 * 3
    assert count(fno(signature)) == by_hand
    assert count(fno(signature, width=width, modes=modes, layers=4)) == by_hand


def test_no_more_modes_than_the_grid_has():
    for space, modes in (((20,), 10), ((256,), 16), ((8, 64), 4), ((1,), 1)):
        assert fno(Signature("dense", 1, space, 1)).blocks[0].mixing.modes == modes


def test_coordinates_stand_behind_the_channels():
    x = torch.randn(2, 3, 3, 5)
    y = with_coordinates(x)
    assert torch.equal(y[:, :3], x)
    assert torch.equal(y[1, 3], torch.tensor([0, 0.5, 1])[:, None].expand(3, 5))
    assert torch.equal(y[1, 4], torch.tensor([0, 0.25, 0.5, 0.75, 1]).expand(3, 5))
    assert with_coordinates(torch.zeros(1, 1, 1))[0, 1].item() == 0


def test_formula():
    """``Q(norm(K u + W u))`` spelled out for two layers: relu between blocks, none after the last."""
    model = cnn(Signature("dense", 1, (9,), 2), width=5, layers=2, norm=True).eval()
    nn.init.normal_(model.blocks[1].norm.bias)
    x = torch.randn(2, 1, 9)
    first, second = model.blocks
    u = model.lift(with_coordinates(x))
    u = torch.relu(first.norm(first.mixing(u) + first.pointwise(u)))
    u = second.norm(second.mixing(u) + second.pointwise(u))
    assert (u < 0).any()
    torch.testing.assert_close(model(x), model.project[2](torch.relu(model.project[0](u))))


def test_answers_for_a_sample_are_projected_means():
    model = fno(Signature("regression", 1, (6, 7), 2), width=4, modes=2)
    seen = []
    model.blocks[-1].register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    y = model(torch.randn(3, 1, 6, 7))
    torch.testing.assert_close(y, model.project(seen[0].mean(dim=(2, 3))))


def test_the_border_of_the_twin():
    signature = Signature("dense", 1, (9, 8), 1)
    network = make_backbone("cnn", signature, {"width": 3, "modes": 4, "padding": "zeros"})
    assert {block.mixing.padding_mode for block in network.blocks} == {"zeros"}
    assert network(torch.zeros(2, 1, 9, 8)).shape == (2, 1, 9, 8)
    with pytest.raises(ConfigError, match="backbone.padding is 'zero'; did you mean 'zeros'"):
        make_backbone("cnn", signature, {"padding": "zero"})


def test_odd_kernels_are_torch_circular_convolutions():
    mixing = cnn(Signature("dense", 1, (11, 9), 1), width=3, kernel=5).blocks[0].mixing
    plain = nn.Conv2d(3, 3, 5, padding=2, padding_mode="circular", bias=False)
    plain.weight = mixing.weight
    x = torch.randn(2, 3, 11, 9)
    torch.testing.assert_close(mixing(x), plain(x))
    assert mixing.bias is None


@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 7, 8])
@pytest.mark.parametrize("size", [1, 4, 7, 10])
def test_kernels_of_any_size_wrap_around(kernel, size):
    mixing = cnn(Signature("dense", 1, (size,), 1), width=2, kernel=kernel).blocks[0].mixing
    taps = mixing.weight.shape[2]
    assert taps == min(kernel, size)
    x = torch.randn(1, 2, size)
    expected = sum(
        torch.einsum("bit,oi->bot", torch.roll(x, (taps - 1) // 2 - tap, dims=2), mixing.weight[:, :, tap])
        for tap in range(taps)
    )
    torch.testing.assert_close(mixing(x), expected)


@pytest.mark.parametrize("name", ["fno", "cnn"])
def test_one_network_at_several_resolutions(name):
    model = make_backbone(name, Signature("dense", 1, (16, 16), 1), {"width": 4, "modes": 3}).eval()
    for space in [(32, 32), (17, 23), (9, 8)]:
        assert model(torch.randn(2, 1, *space)).shape == (2, 1, *space)


def test_fno_answers_alike_on_finer_grids():
    """Nearly: the relu makes frequencies that a coarser grid folds back."""
    model = fno(Signature("dense", 1, (128,), 1), width=8, modes=4).eval()

    def answer(n):
        t = torch.arange(n) / (n - 1)  # end points on the grid, as the coordinates have them
        return model(torch.sin(3 * t)[None, None])[0, 0]

    with torch.no_grad():
        coarse, fine = answer(129), answer(257)[::2]
    assert (coarse - fine).norm() < 0.01 * coarse.norm()


@pytest.mark.parametrize("make", [fno, cnn])
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"width": -1}, "backbone.width is -1, but '{name}' needs it to be at least 0"),
        ({"modes": -3}, "backbone.modes is -3, but '{name}' needs it to be at least 0"),
        ({"layers": 0}, "backbone.layers is 0, but '{name}' needs it to be at least 1"),
    ],
)
def test_refuses_impossible_sizes(make, options, text):
    with pytest.raises(ConfigError) as caught:
        make(DARCY, **options)
    assert str(caught.value) == text.format(name=make.__name__)
