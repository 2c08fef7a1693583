"""Which operations have the weight, of mixtures that were moved on purpose."""

import torch
from torch import nn

from eclose.ops.mixture import Mixture
from eclose.spaces.discrete_explanation import explain_mixtures
from eclose.spaces.relaxing.mix import mix


def mixed() -> tuple[nn.Module, list[Mixture]]:
    network = nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.MaxPool1d(2), nn.Conv1d(3, 2, 7, padding=3))
    network = mix(network, torch.zeros(1, 2, 16))
    return network, [module for module in network.modules() if isinstance(module, Mixture)]


def weigh(mixture: Mixture, **shares: float) -> None:
    rest = (1 - sum(shares.values())) / (len(mixture.operations) - len(shares))
    with torch.no_grad():
        mixture.alpha.copy_(torch.tensor([shares.get(name, rest) for name in mixture.operations]).log())


def test_at_the_start() -> None:
    network, mixtures = mixed()
    (section,) = explain_mixtures(network, "lenet")
    assert section.sentences == (
        "It is lenet with mixed operations in place of 3 layers.",
        "In all of 3 layers the operation of the start still has the largest weight.",
    )
    assert section.table is not None
    rows = [dict(zip(section.table.headings, row, strict=True)) for row in section.table.rows]
    own = "the layer's own convolution"
    assert [row["started as"] for row in rows] == ["convolution of 3", "max pooling of 3", own]
    assert [row["largest weight"] for row in rows] == ["convolution of 3", "max pooling of 3", own]
    assert all(row["share"] == 0.9 and abs(row["moved"]) < 1e-6 for row in rows)
    assert all(torch.allclose(one.first_shares(), one.alpha.softmax(0)) for one in mixtures)


def test_moved() -> None:
    network, (first, second, third) = mixed()
    weigh(first, dilated_conv3=0.6, conv3=0.3)
    weigh(second, average_pool3=0.5, identity=0.45)
    weigh(third, own=0.8)
    (section,) = explain_mixtures(network, "lenet")
    assert section.sentences[1:] == (
        "In 2 of 3 layers another operation than that of the start has the largest weight now.",
        "Layer 1 started as max pooling of 3: now average pooling of 3 has 50 % of the weight, skip 45 %.",
        "Layer 0 started as convolution of 3: now convolution of 3 with dilation 2 has 60 % of the weight, "
        "convolution of 3 30 %.",
        "Close calls, where the lead is below 10 %: 1.",
    )
    assert section.table is not None
    rows = [dict(zip(section.table.headings, row, strict=True)) for row in section.table.rows]
    assert rows[0]["moved"] == 0.6, "from convolution of 3 to others"
    assert rows[1]["second"] == "skip"


def test_what_is_not_finite_is_said() -> None:
    network, mixtures = mixed()
    with torch.no_grad():
        mixtures[1].alpha[0] = torch.nan
    (section,) = explain_mixtures(network, "lenet")
    assert section.sentences == ("Layer 1 has weights that are not finite: nothing can be said of it.",)
    assert explain_mixtures(nn.Sequential(nn.Linear(2, 2)), "x") == []
