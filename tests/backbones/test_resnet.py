import pytest
import torch
from torch import nn

from eclose.backbones import make_backbone, resnet
from eclose.backbones.resnet import ResidualBlock, stages
from eclose.errors import ConfigError
from eclose.signature import Signature
from eclose.spaces import backbone_genotype


def size(model):
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("sizes", "planned"),
    [
        ((140,), [(64, (1,)), (128, (1,)), (128, (1,))]),
        ((1000,), [(64, (1,)), (128, (2,)), (128, (2,))]),
        ((8, 8), [(64, (1, 1)), (128, (1, 1)), (128, (1, 1))]),
        ((9, 8), [(64, (1, 1)), (128, (2, 1)), (128, (1, 1))]),
        ((32, 32), [(64, (1, 1)), (128, (2, 2)), (256, (2, 2))]),
    ],
)
def test_stages_follow_the_input(sizes, planned):
    assert stages(sizes, 64) == planned


@pytest.mark.parametrize("sizes", [(20_011,), (300, 2), (70, 5, 33)])
def test_long_axes_cost_no_more(sizes):
    model = resnet(Signature("regression", 1, sizes, 2), width=4).eval()
    seen = []
    for block in model:
        if isinstance(block, ResidualBlock):
            block.register_forward_hook(lambda _module, _args, out: seen.append(out.shape[2:].numel()))
    assert model(torch.randn(1, 1, *sizes)).shape == (1, 2)
    assert seen == sorted(seen, reverse=True)
    assert seen[0] <= {1: 1024, 2: 64 * 64, 3: 32**3}[len(sizes)]
    assert seen[-1] <= 0.51 * seen[0]


def test_on_signals_it_is_the_network_of_wang_et_al():
    def block(inputs, outputs):
        body = 7 * inputs * outputs + (5 + 3) * outputs**2 + 3 * 2 * outputs
        return body + (inputs * outputs + 2 * outputs if inputs != outputs else 0)

    model = resnet(Signature("classification", 1, (140,), 5))
    assert size(model) == block(1, 64) + block(64, 128) + block(128, 128) + 128 * 5 + 5
    kernels = [m.kernel_size for m in model.modules() if isinstance(m, nn.Conv1d) and m.kernel_size != (1,)]
    assert kernels == 3 * [(7,), (5,), (3,)]


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((140,), {"width": 64, "blocks": 1, "kernels": [7, 5, 3]}),
        ((8, 8), {"width": 64, "blocks": 1, "kernels": [3, 3]}),
        ((28, 28), {"width": 64, "blocks": 2, "kernels": [3, 3]}),
        ((16, 16, 16), {"width": 32, "blocks": 1, "kernels": [3, 3]}),
    ],
)
def test_sizes_are_written_out_and_build_the_same_network(sizes, options):
    signature = Signature("classification", 3, sizes, 10)
    written = backbone_genotype("resnet", {}, signature).choices["options"]
    assert written == {**options, "regions": 1, "dropout": 0.0, "drop_path": 0.0}
    assert size(make_backbone("resnet", signature, written)) == size(resnet(signature))


def test_blocks_are_left_out_at_random_in_training_only():
    torch.manual_seed(0)
    block = ResidualBlock(4, 4, [(3,), (3,)], (1,), drop_path=0.5)
    x = torch.randn(400, 4, 9)
    branch = block.body[:-1](x)
    kept = torch.nn.functional.relu(x + 2 * branch)
    left_out = torch.nn.functional.relu(x)
    y = block(x)
    is_kept = (y - kept).abs().amax((1, 2)) < 1e-5
    is_left_out = (y - left_out).abs().amax((1, 2)) < 1e-5
    assert (is_kept ^ is_left_out).all()
    assert 140 < int(is_kept.sum()) < 260
    block.eval()
    torch.testing.assert_close(block(x), torch.nn.functional.relu(x + block.body[:-1](x)))


def test_learns_to_tell_frequencies_apart():
    torch.manual_seed(0)
    t = torch.linspace(0, 1, 60)
    classes = torch.arange(96) % 3
    phase = torch.rand(96, 1) * 2 * torch.pi
    x = torch.sin((4 + 3 * classes[:, None]) * 2 * torch.pi * t + phase)[:, None] + 0.3 * torch.randn(96, 1, 60)
    model = resnet(Signature("classification", 1, (60,), 3), width=16)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(6):
        for batch in torch.randperm(64).split(16):
            loss = nn.functional.cross_entropy(model(x[batch]), classes[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    model.eval()
    assert (model(x[64:]).argmax(dim=1) == classes[64:]).float().mean() > 0.9


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kernels": (7, 4)}, "backbone.kernels[1] is 4, but 'resnet' needs an odd number"),
        ({"blocks": -1}, "backbone.blocks is -1, but 'resnet' needs it to be at least 0"),
        ({"dropout": 2.0}, "backbone.dropout is 2.0, but 'resnet' needs it in [0, 1)"),
        ({"drop_path": 1.0}, "backbone.drop_path is 1.0, but 'resnet' needs it in [0, 1)"),
    ],
)
def test_refusals(options, text):
    with pytest.raises(ConfigError) as caught:
        resnet(Signature("classification", 1, (20,), 3), **options)
    assert str(caught.value) == text
