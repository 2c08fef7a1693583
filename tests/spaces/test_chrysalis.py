"""The space ``chrysalis``: K-operations that begin at random or as convolutions."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from eclose.engine import Search
from eclose.errors import ConfigError
from eclose.ops.xd import XD, random_architecture
from eclose.signature import Signature
from eclose.spaces import Genotype, backbone_genotype, spaces
from eclose.spaces.architecture import named_architecture
from eclose.spaces.chrysalis_explanation import explain_k_operations
from eclose.spaces.explanation import sections_from
from eclose.train import generator_for, load_tensors, save_tensors
from eclose.train.module_hooks import one_pass
from tests.contracts.cases import Case, fields, images, inputs, signals
from tests.ops.xd.cases import truth

LENET = {"backbone.name": "lenet", "backbone.widths": [2, 3], "backbone.hidden": [8]}


def searching(data: Any = images, **settings: Any) -> Search:
    network = LENET if data is images else {"backbone.name": "cnn", "backbone.width": 4}
    return Case(data, {**network, **settings}).search(space="chrysalis")


def operations(network: nn.Module) -> list[XD]:
    return [module for module in network.modules() if isinstance(module, XD)]


def gram(matrix: Tensor) -> Tensor:  # (n, n, 2)
    whole = torch.view_as_complex(matrix.detach().contiguous())
    return whole.conj().T @ whole


def test_from_scratch_matrices_of_depth_nine_are_unitary() -> None:
    search = searching()
    supernet = search.space.supernet(search.start, search.task.signature)
    found = operations(supernet)
    assert len(found) == 2
    for operation in found:
        architecture = operation.architecture
        assert (architecture.b, architecture.C, architecture.depth) == (None, None, (9, 9, 9))
        for part, scale in ((architecture.K, 1), (architecture.M, 1), (architecture.L, None)):
            for matrix in part:
                size = matrix.matrix.size
                expected = torch.eye(size, dtype=torch.complex64) * (scale or size)
                torch.testing.assert_close(gram(matrix.dense()) / (scale or size), expected / (scale or size))
    size = sum(parameter.numel() for parameter in named_architecture(supernet).values())
    assert size == sum(part.entries.numel() for operation in found for part in operation.architecture.parts())


def test_what_is_drawn_follows_from_the_seed_of_the_run_and_differs_from_layer_to_layer() -> None:
    entries = []
    for seed in (0, 0, 1):
        search = searching(**{"run.seed": seed})
        found = operations(search.space.supernet(search.start, search.task.signature))
        entries.append([operation.architecture.M[0].entries for operation in found])
    assert torch.equal(entries[0][0], entries[1][0])
    assert not torch.equal(entries[0][0], entries[2][0])
    shared = min(len(entry.flatten()) for entry in entries[0])
    assert not torch.equal(*(entry.flatten()[:shared] for entry in entries[0]))


@pytest.mark.parametrize("data", [images, fields])
def test_a_warm_start_is_the_convolution(data: Any) -> None:
    search = searching(data, **{"space.begin": "warm"})
    signature = search.task.signature
    torch.manual_seed(0)
    ours = search.space.supernet(search.start, signature).eval()
    plain = Case(data, {**LENET} if data is images else {"backbone.name": "cnn", "backbone.width": 4})
    backbone = plain.search(space="backbone")
    torch.manual_seed(0)
    theirs = backbone.space.build(backbone.start, signature).eval()
    torch.testing.assert_close(ours(inputs(signature)), theirs(inputs(signature)), rtol=1e-4, atol=1e-4)
    for operation in operations(ours):
        architecture = operation.architecture
        assert architecture.depth == (1, 1, 1)
        for part in architecture.parts():
            size = part.matrix.size if part in architecture.L else 1  # an unnormalised transform
            torch.testing.assert_close(gram(part.dense()) / size, torch.eye(part.matrix.size, dtype=torch.complex64))


def random_operation(depth: int, dtype: torch.dtype, size: int = 16) -> XD:
    torch.manual_seed(0)
    conv = nn.Conv1d(3, 4, 3, padding=1, bias=False, dtype=dtype)
    operation = XD.from_conv(conv, size, bias=False, gates=False)
    operation.architecture = random_architecture(operation.architecture, depth, generator_for("test"))
    return operation


def test_outputs_keep_half_of_their_mean_square() -> None:
    """No layer dies at the start: only the real part of what a convolution's size is does not count."""
    operation, x = random_operation(9, torch.float32, 64), torch.randn(50, 3, 64)
    ratio = operation(x).square().mean() / nn.functional.conv1d(x, operation.weight, padding=1).square().mean()
    assert 0.35 < ratio < 0.65


def test_frozen_at_the_start_it_is_not_the_convolution() -> None:
    operation, x = random_operation(9, torch.float32), torch.randn(2, 3, 16)
    free = operation(x)
    operation.architecture.requires_grad_(False)
    torch.testing.assert_close(operation(x), free)
    assert not torch.allclose(free, nn.functional.conv1d(x, operation.weight, padding=1), atol=0.1)


def test_gradients_through_depth_nine() -> None:
    operation = random_operation(9, torch.float64, 4)
    x = torch.randn(1, 3, 4, dtype=torch.float64, requires_grad=True)
    parameters = [x, operation.weight, *(part.entries for part in operation.architecture.parts())]
    assert torch.autograd.gradcheck(lambda *_: operation(x).sin(), parameters, fast_mode=True)


WIDE = {"backbone.name": "wide-lenet", "backbone.widths": [2, 3, 4], "backbone.hidden": 4}


def supernet_of(**settings: Any) -> nn.Module:
    search = Case(images, settings).search(space="chrysalis")
    return search.space.supernet(search.start, search.task.signature)


@pytest.mark.parametrize("begin", ["scratch", "warm"])
def test_tied_layers_have_one_operation(begin: str) -> None:
    """Wide ButterfLeNet: the second and the third layer share theirs, and both move it."""
    supernet = supernet_of(**WIDE, **{"space.begin": begin, "space.tied": ["conv2,conv3"]})
    first, second, third = operations(supernet)
    assert second.architecture is third.architecture is not first.architecture
    alone = operations(supernet_of(**WIDE, **{"space.begin": begin}))
    assert torch.equal(alone[1].architecture.M[0].entries, second.architecture.M[0].entries)
    own = named_architecture(supernet)
    assert {name.split(".")[0] for name in own} == {"conv1", "conv2"}
    x = torch.randn(4, 1, 8, 8)
    supernet(x).square().sum().backward()
    together = own["conv2.architecture.M.0.entries"].grad.clone()
    for frozen in (second, third):  # what comes through one layer alone is another gradient
        supernet.zero_grad()
        signal = frozen(torch.randn(2, frozen.in_channels, 8, 8)).square().sum()
        signal.backward()
        assert not torch.allclose(own["conv2.architecture.M.0.entries"].grad, together)


def test_tied_layers_stay_tied_through_files_and_derive(tmp_path: Path) -> None:
    search = Case(images, {**WIDE, "space.tied": ["conv[23]"]}).search(space="chrysalis")
    signature = search.task.signature
    supernet = search.space.supernet(search.start, signature)
    with torch.no_grad():
        for parameter in supernet.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    found, network = search.space.derive(search.start, supernet.eval())
    found.save(tmp_path)
    read = Genotype.load(tmp_path)
    assert not any(name.startswith("conv3") for name in read.tensors)
    again = spaces["chrysalis"].make(search.config).build(read, signature).eval()
    save_tensors(tmp_path / "weights.safetensors", dict(network.state_dict()))
    again.load_state_dict(load_tensors(tmp_path / "weights.safetensors"))
    _, second, third = operations(again)
    assert second.architecture is third.architecture
    assert not any(parameter.requires_grad for parameter in second.architecture.parameters())
    torch.testing.assert_close(again(inputs(signature)), supernet(inputs(signature)))


@pytest.mark.parametrize("begin", ["scratch", "warm"])
def test_a_layer_of_another_size_has_a_part_of_the_shared_operation(begin: str) -> None:
    """LeNet pools between its layers: the smaller one uses the matrices of the larger one."""
    settings = {**LENET, "space.begin": begin}
    torch.manual_seed(0)
    tied = supernet_of(**settings, **{"space.tied": ["*"]})
    large, small = operations(tied)
    assert small.architecture is large.architecture
    assert [axis.size for axis in small.axes] == [4, 4]
    assert small.axes[0].transform == large.axes[0].transform
    x = torch.randn(3, 1, 8, 8)
    with one_pass(tied):
        y = tied(x)
    torch.testing.assert_close(y, tied(x))
    if begin == "warm":
        torch.manual_seed(0)
        torch.testing.assert_close(y, supernet_of(**settings)(x), rtol=1e-4, atol=1e-4)


def test_layers_that_begin_differently() -> None:
    """The paper's ButterfLeNet-Spherical: the first layer is warm, the second from scratch."""
    warm, scratch = operations(supernet_of(**LENET, **{"space.begin": "warm,scratch"}))
    assert (warm.architecture.depth, scratch.architecture.depth) == ((1, 1, 1), (9, 9, 9))
    assert warm.architecture.at_start()
    assert (warm.architecture.drawn, scratch.architecture.drawn) == (False, True)
    three = operations(supernet_of(**WIDE, **{"space.begin": "warm, scratch", "space.depth": 2}))
    assert [one.architecture.drawn for one in three] == [False, True, True]
    assert {one.architecture.depth for one in three} == {(2, 2, 2)}


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_signals_images_and_volumes(axes: int) -> None:
    """One matrix an axis, for all channels of a layer: Definition A.2."""
    torch.manual_seed(0)
    x, sizes = torch.randn(2, 3, *(5, 4, 6)[:axes], dtype=torch.float64), (5, 4, 6)[:axes]
    conv = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[axes - 1](3, 2, 3, padding=1, bias=False, dtype=torch.float64)
    operation = XD.from_conv(conv, sizes, bias=False, gates=False)
    operation.architecture = architecture = random_architecture(operation.architecture, 9, generator_for("axes"))
    assert len(architecture.parts()) == 3 * axes
    expected = truth(operation, x)
    torch.testing.assert_close(operation(x), expected)


def test_a_portfolio_is_offered_one_network_for_small_images() -> None:
    search = searching()
    known = [backbone_genotype("resnet", {}, search.task.signature)]
    (offered,) = search.space.offers(search.task.signature, known)
    assert search.space.turn > spaces["xd"].make.turn, "a short portfolio leaves it out"
    assert offered.description == "lenet with K-operations"
    assert offered.choices["drawn"] == search.config.run.seed
    assert {one.architecture.depth for one in operations(search.space.build(offered, search.task.signature))} == {
        (9, 9, 9)
    }
    others = [
        Signature("classification", 1, (64, 64), 2),
        Signature("classification", 1, (64,), 2),
        Signature("dense", 1, (8, 8), 1),
    ]
    assert all(search.space.offers(signature, known) == [] for signature in others)
    assert search.space.offers(search.task.signature, []) == []


@pytest.mark.parametrize(("data", "name"), [(images, "lenet"), (fields, "cnn"), (signals, "resnet")])
def test_the_network_if_nobody_says(data: Any, name: str) -> None:
    assert Case(data, {}).search(space="chrysalis").config.backbone.name == name


def test_genotypes_of_earlier_versions() -> None:
    """They had one depth for all, and the seed alone."""
    search = searching()
    now = search.start.choices
    earlier = {key: value for key, value in now.items() if key not in ("begin", "drawn_depth")}
    earlier["relaxation"] = {**now["relaxation"], "depth": [9, 9, 9]}
    ours, theirs = (
        search.space.build(replace(search.start, choices=choices), search.task.signature) for choices in (now, earlier)
    )
    for one, other in zip(operations(ours), operations(theirs), strict=True):
        assert torch.equal(one.architecture.K[0].entries, other.architecture.K[0].entries)


def moved(network: nn.Module) -> nn.Module:
    with torch.no_grad():
        for parameter in named_architecture(network).values():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator_for("moved")))
    return network


def test_it_says_what_it_began_as() -> None:
    search = searching()
    network = moved(search.space.build(search.start, search.task.signature))
    became, filters = search.space.explain(search.start, network)
    assert became.sentences[0] == "It is lenet with K-operations in place of 2 layers."
    assert "started as a random operation" in became.sentences[2]
    assert became.table is not None
    assert became.table.headings[3:6] == ("K1", "M", "K2")
    assert became.table.note.startswith("Moved, K1, M, K2: distance from the start")
    assert "K1 and K2 were unitary at the start." in filters.sentences[0]
    assert filters.table is not None
    rows = {row[0]: dict(zip(filters.table.headings, row, strict=True)) for row in filters.table.rows}
    assert rows["0"]["began"] == "from scratch"
    assert min(rows["0"]["K1"], rows["3"]["K2"]) > 0.1
    assert 0 < rows["0"]["within the window"] < 1


@pytest.mark.parametrize(
    ("data", "begin", "names"),
    [
        (images, "scratch", ("convolution", "start", "found")),
        (images, "warm", ("convolution", "found")),
        (fields, "scratch", ("convolution", "start", "found")),
    ],
)
def test_pictures_of_filters_at_random_places(data: Any, begin: str, names: tuple[str, ...]) -> None:
    """Figure 2: convolution, start and found, one below the other, at the same places."""
    search = searching(data, **{"space.begin": begin})
    network = search.space.build(search.start, search.task.signature)
    _, filters = search.space.explain(search.start, network)
    assert filters.sentences == (
        "K1 and K2 of every layer are unitary, as they were at the start: they keep the size of a signal.",
    )
    picture = filters.pictures[0]
    if data is fields:
        assert {line.label for plot in picture.plots for line in plot.lines} == set(names)
        return
    assert [map_.title.split(",")[0] for map_ in picture.maps[:: picture.columns]] == list(names)
    first, last = picture.maps[0], picture.maps[-picture.columns]
    same = torch.allclose(*(torch.tensor(map_.values) for map_ in (first, last)), atol=1e-3)
    assert same == (begin == "warm")
    rows = [picture.maps[place : place + picture.columns] for place in range(0, len(picture.maps), picture.columns)]
    largest = [max(abs(value) for map_ in row for line in map_.values for value in line) for row in rows]
    assert largest == [1.0] * len(names), "each row by its own largest number, so that its shape shows"
    assert sections_from(json.loads(json.dumps([filters.as_dict()]))) == [filters]


def test_of_a_volume_the_plane_of_the_output_is_drawn() -> None:
    """At the border, too, where the neighbourhood ends: the convolution is always seen, by the middle of its kernel."""
    torch.manual_seed(0)
    conv = nn.Conv3d(1, 1, 3, padding=1, bias=False)
    network = nn.Sequential(XD.from_conv(conv, (5, 6, 7), bias=False, gates=False))
    _, filters = explain_k_operations(network, "cnn", "K-operations")
    (picture,) = filters.pictures
    assert "Of a volume the plane in the middle of what the convolution sees is shown" in picture.sentences[0]
    planes = [int(re.search(r"at \((\d+)", map_.title).group(1)) for map_ in picture.maps]  # type: ignore[union-attr]
    assert {0, 4} & set(planes), "one of the places is at the border"
    sizes = dict(re.findall(r"(convolution|found) ([\d.]*\d)", picture.sentences[0]))
    for map_ in picture.maps:
        size = float(sizes[map_.title.split(",")[0]])
        shown = [size * value for row in map_.values for value in row if abs(value) > 1e-3]
        assert shown
        assert all((conv.weight[0, 0, 1] - value).abs().min() < 0.01 for value in shown)


def test_it_says_which_layers_share_an_operation() -> None:
    search = Case(images, {**WIDE, "space.tied": ["conv2,conv3"]}).search(space="chrysalis")
    network = moved(search.space.build(search.start, search.task.signature))
    _, filters = search.space.explain(search.start, network)
    assert filters.sentences[0] == "Layers conv2 and conv3 share one operation."
    assert filters.table is not None
    second, third = filters.table.rows[1:]
    assert second[2:4] == third[2:4]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            {"space.begin": "cold"},
            "space.begin is 'cold', but must be scratch or warm, or one for every layer: warm,scratch",
        ),
        (
            {"space.begin": "warm,scratch,warm"},
            "space.begin says how 3 layers begin, but 2 become K-operations: 0, 3",
        ),
        (
            {"space.tied": ["0,conv2"]},
            "space.tied has '0,conv2', but 'conv2' is none of the layers that become K-operations: 0, 3",
        ),
        ({"space.tied": ["0"]}, "space.tied has '0', but it is one layer; name two at least of: 0, 3"),
        ({"space.tied": ["0,3", "*"]}, r"space.tied has '\*', but '0' is in another group already"),
        (
            {"space.tied": ["0,3"], "space.begin": "warm,scratch"},
            "space.tied has '0,3', but its layers begin differently; they have one operation, so give them one",
        ),
        ({"space.depth": -1}, "space.depth is -1, but must be at least 1, or 0 for that of the paper"),
    ],
    ids=str,
)
def test_options_that_do_not_fit(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        searching(**settings)


def test_tied_layers_are_looked_at_where_a_search_begins() -> None:
    """A network that was found may be given smaller inputs, with zeros behind them, than it could begin with."""
    space = searching(**{"space.tied": ["0,3"]}).space
    assert space.effective(Signature("classification", 1, (3, 3), 2)) == {"causal": False}
