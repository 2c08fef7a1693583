"""What became of XD-operations, of networks whose operations were moved on purpose."""

import json
from collections import OrderedDict

import pytest
import torch
from torch import nn

import eclose
from eclose.ops.xd import XD, impulse_responses
from eclose.spaces import xd_explanation
from eclose.spaces.explanation import Section, sections_from
from eclose.spaces.xd_explanation import PIXELS, POINTS, explain_operations
from eclose.spaces.xd_likeness import found_operations
from tests.ops.xd.learned_operations import dilated, scrambled


def explained(name: str = "", **operations: nn.Module) -> Section:
    (section,) = explain_operations(nn.Sequential(OrderedDict(operations)), name=name)
    assert sections_from(json.loads(json.dumps([section.as_dict()]))) == [section]
    return section


def shaken(operation: XD, size: float = 0.05) -> XD:
    with torch.no_grad():
        for parameter in operation.arch_parameters():
            parameter.add_(size * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    return operation


def test_a_dilated_convolution_is_named_and_still_the_same_everywhere() -> None:
    still = XD.from_conv(nn.Conv1d(1, 2, 3, padding=1), 24)
    section = explained("lenet", conv1=dilated((24,), 3, (2,), (2,)), act=nn.ReLU(), conv2=still)
    assert section.sentences[0] == "It is lenet with XD-operations in place of 2 layers."
    assert section.sentences[1] == "1 of 2 operations moved by more than 10 % of what it was."
    assert section.sentences[2].startswith("Layer conv1 started as a convolution, moved by ")
    assert section.sentences[2].endswith("and is now nearest to a convolution with dilation 2 (residual below 0.1 %).")
    assert section.table is not None
    rows = {row[0]: dict(zip(section.table.headings, row, strict=True)) for row in section.table.rows}
    assert list(rows) == ["conv1", "conv2"]
    assert rows["conv1"]["nearest known operation"] == "convolution with dilation 2"
    assert rows["conv1"]["L"] > 0.1
    assert rows["conv1"]["K"] == rows["conv1"]["M"] == 0
    assert rows["conv2"]["moved"] == rows["conv2"]["L"] == 0
    (picture,) = section.pictures
    assert picture.title == "Layer conv1: what it makes of an impulse"
    assert picture.sentences[0].startswith("It answers alike wherever the impulse is: it is still shift-invariant.")


def test_a_permutation_is_no_longer_the_same_everywhere() -> None:
    operation, _ = scrambled((24,), 3)
    section = explained(conv=operation)
    assert "is now nearest to a permutation, then convolution moving " in section.sentences[1]
    assert "it is no longer shift-invariant, as its start was." in section.pictures[0].sentences[0]


def test_pictures_show_the_real_answers() -> None:
    torch.manual_seed(0)
    signal = shaken(XD.from_conv(nn.Conv1d(2, 3, 5, padding=2), 20))
    image = shaken(XD.from_conv(nn.Conv2d(2, 3, 3, stride=2, padding=1), (9, 8)))
    volume = shaken(XD.from_conv(nn.Conv3d(1, 2, 3, padding=1), (4, 5, 6)))
    section = explained(a=signal, b=image, c=volume)
    pictures = {picture.title.split()[1][0]: picture for picture in section.pictures}
    seen = impulse_responses(signal)
    for number, plot in enumerate(pictures["a"].plots):
        assert plot.title == f"impulse at {seen.places[number][0]}"
        assert [line.label for line in plot.lines] == ["start", "found"]
        assert (plot.first, plot.last, plot.mark) == (0, 19, seen.places[number][0])
        for line, truth in zip(plot.lines, (seen.start, seen.found), strict=True):
            torch.testing.assert_close(torch.tensor(line.values).double(), truth[number], rtol=0.01, atol=1e-6)
    seen = impulse_responses(image)
    maps = pictures["b"].maps
    assert [one.title for one in maps[:2]] == ["start, impulse at (2, 2)", "start, impulse at (4, 4)"]
    assert pictures["b"].columns == 3
    for one, truth in zip(maps, [*seen.start, *seen.found], strict=True):
        torch.testing.assert_close(torch.tensor(one.values).double(), truth, rtol=0.01, atol=1e-6)
    seen = impulse_responses(volume)
    shown = torch.tensor(pictures["c"].maps[-1].values).double()
    torch.testing.assert_close(shown.abs(), seen.found[-1].abs().amax(0), rtol=0.01, atol=1e-6)
    assert "the largest value is shown" in pictures["c"].sentences[0]


def test_nothing_moved() -> None:
    section = explained(conv=XD.from_conv(nn.Conv1d(1, 2, 3, padding=1), 24))
    assert section.sentences == (
        "No operation moved by more than 10 % of what it was at the start; none moved at all.",
    )
    assert section.pictures == ()
    assert explain_operations(nn.Sequential(nn.Conv1d(1, 1, 3))) == []


def test_what_is_not_finite_is_said() -> None:
    operation = XD.from_conv(nn.Conv1d(1, 2, 3, padding=1), 24)
    with torch.no_grad():
        next(operation.arch_parameters())[0, 0] = torch.nan
    assert explained(conv=operation).sentences == (
        "'conv' has parameters that are not finite: nothing can be said of it.",
    )


def test_large_networks_cost_no_more_than_the_most_moved_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    layers = {
        f"conv{n}": shaken(XD.from_conv(nn.Conv2d(1, 1, 3, padding=1), (32, 32)), 0.01 + 0.001 * n) for n in range(120)
    }
    network = nn.Sequential(OrderedDict(layers))
    monkeypatch.setattr(xd_explanation, "WORK", 4 * 2 * 192.0**3)
    (section,) = explain_operations(network)
    found = found_operations(network, xd_explanation.WORK)
    full = [one.path for one in found if one.distances.K is not None]
    assert full == ["conv116", "conv117", "conv118", "conv119"]
    assert section.table is not None
    assert len(section.table.rows) == 100
    assert section.table.note.endswith("20 operations that moved less have no row.")
    assert len(section.pictures) == 3
    assert max(len(one.values) for picture in section.pictures for one in picture.maps) <= PIXELS
    assert len(json.dumps(section.as_dict())) < 150_000


def test_deep_operations_of_many_taps_take_longer() -> None:
    few, many = (nn.Conv1d(1, 1, taps, padding=taps // 2) for taps in (3, 31))
    operations = {"few": XD.from_conv(few, 200), "many": XD.from_conv(many, 200, depth=(9, 9, 9))}
    found = found_operations(nn.ModuleDict(operations), work=1e8)
    assert [one.path for one in found if one.distances.K is not None] == ["few"]


def test_long_signals_are_thinned_and_keep_their_peaks() -> None:
    operation = shaken(XD.from_conv(nn.Conv1d(1, 1, 3, padding=1), 3000), 0.02)
    section = explained(conv=operation)
    (picture,) = section.pictures
    seen = impulse_responses(operation)
    for number, plot in enumerate(picture.plots):
        assert plot.last == 2999
        for line, truth in zip(plot.lines, (seen.start, seen.found), strict=True):
            assert len(line.values) <= POINTS
            assert max(map(abs, line.values)) == pytest.approx(truth[number].abs().max().item(), rel=0.01)
    assert len(json.dumps(section.as_dict())) < 20_000
    assert section.table is not None
    assert section.table.rows[0][3:] == (None,) * 5, "matrices of this size are not made"
    assert "Where K, L and M are missing, moved is the distance of all entries." in section.table.note


def test_a_network_at_hand_is_described_in_the_same_words() -> None:
    network = nn.Sequential(shaken(XD.from_conv(nn.Conv1d(1, 2, 3, padding=1), 24)))
    assert list(eclose.describe(network).explanation) == explain_operations(network)
