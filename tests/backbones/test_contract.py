"""What every registered network promises, on signals, images and volumes, at sizes that are easy to get wrong."""

import copy

import pytest
import torch

from eclose.backbones import backbones, check_output, make_backbone
from eclose.errors import Unsuited
from eclose.signature import Signature
from eclose.train.module_hooks import Verbs

POOLED = (
    *("lenet", "kim", "wide-lenet", "spherical", "resnet", "inception", "tcn"),
    *("resnet20", "wrn40-4", "pyramidnet", "fno", "cnn", "ccnn", "linear", "random_filters"),
    "spectrogram",
)
SIGNALS = ("spectrogram",)  # alone
DENSE = ("unet", "inception", "tcn", "fno", "cnn", "ccnn", "linear", "linear_plus")
NO_POOLING = ("unet", "linear_plus")
NUMBERS = ("linear_plus",)  # from fields of numbers to fields of numbers alone
ORDINARY = {1: (20,), 2: (12, 10), 3: (8, 6, 5)}
AWKWARD = {
    1: [(1,), (2,), (7,), (13,), (31,)],
    2: [(1, 1), (1, 9), (5, 7), (13, 11)],
    3: [(1, 1, 1), (2, 5, 3), (7, 4, 5)],
}
# Small where the option exists: the contract is about shapes and gradients, not about size.
SMALL = {
    "fno": {"width": 6, "modes": 3},
    "cnn": {"width": 6},
    "ccnn": {"width": 6, "blocks": 2, "hidden": 8},
    "linear_plus": {"width": 6},
    "lenet": {"hidden": (12, 8)},
    "wide-lenet": {"widths": (3, 4, 5), "hidden": 6},
    "spectrogram": {"width": 6},
    "spherical": {"widths": (3,)},
    "kim": {"filters": 6, "dropout": 0.0},
    "inception": {"width": 3, "blocks": 4},
    "pyramidnet": {"depth": 11, "alpha": 3},
    "resnet": {"width": 6},
    "tcn": {"width": 6},
    "resnet20": {"width": 4},
    "unet": {"width": 6},
}


def axes_of(name):
    return (1,) if name in SIGNALS else (1, 2, 3)


CASES = [
    *((name, axes, kind) for name in POOLED for axes in axes_of(name) for kind in ("classification", "regression")),
    *((name, axes, "dense") for name in DENSE for axes in (1, 2, 3)),
    *((name, axes, "segmentation") for name in DENSE if name not in NUMBERS for axes in (1, 2, 3)),
]
# One kind is enough where the network only distinguishes one answer a sample from one a position.
ONE_KIND = [case for case in CASES if case[2] in ("classification", "dense")]


def chosen(cases, rest):
    """The cases, those of which ``rest`` is true for thorough runs only."""
    return [pytest.param(*case, marks=pytest.mark.exhaustive) if rest(case) else case for case in cases]


# Its blocks are those of the smaller ones, but forty layers in three dimensions take their time.
LARGE = {"wrn40-4"}
MOST = chosen(ONE_KIND, lambda case: case[0] in LARGE and case[1] == 3)


def build(name, kind, space, seed=0, channels=2, outputs=3):
    signature = Signature(kind, channels, space, outputs)
    torch.manual_seed(seed)
    model = make_backbone(name, signature, SMALL.get(name, {}))
    for fitted in Verbs(model).fitted:  # as a training begins
        fitted.fit_to(inputs(signature, 40, 2), torch.randn(signature.output_shape(40)))
    return model, signature


def inputs(signature, batch, seed=1):
    return torch.randn(signature.input_shape(batch), generator=torch.Generator().manual_seed(seed))


def test_every_network_is_under_contract():
    assert set(POOLED) | set(DENSE) == set(backbones)


@pytest.mark.parametrize("name", sorted(backbones))
def test_tells_what_it_is(name):
    assert backbones[name].summary.endswith((".", ")"))
    assert all(isinstance(default, (int, float, bool, str, tuple)) for default in backbones[name].options.values())


@pytest.mark.parametrize(("name", "axes", "kind"), CASES)
def test_output_shape(name, axes, kind):
    model, signature = build(name, kind, ORDINARY[axes])
    check_output(model, signature, name)
    assert model(inputs(signature, 3)).shape == signature.output_shape(3)


@pytest.mark.parametrize(
    ("name", "axes", "kind"), [case for case in MOST if not {"lenet", "spherical"} & {*getattr(case, "values", case)}]
)
def test_awkward_sizes_and_a_single_input(name, axes, kind):
    for space in AWKWARD[axes]:
        model, signature = build(name, kind, space)
        model.train()
        assert model(inputs(signature, 2)).isfinite().all(), space
        model.eval()
        assert model(inputs(signature, 1)).shape == signature.output_shape(1), space


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("size", [4, 5, 7, 11])
def test_lenet_from_four_points_up(axes, size):
    model, signature = build("lenet", "classification", (size, 5, 4)[:axes])
    check_output(model.eval(), signature, "lenet")


@pytest.mark.parametrize(("name", "axes", "kind"), MOST)
def test_gradients_reach_every_parameter(name, axes, kind):
    model, signature = build(name, kind, ORDINARY[axes])
    x = inputs(signature, 3)
    model(x).square().sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    model.zero_grad()
    model.eval()  # batch statistics would cancel the biases before them
    model(x).square().sum().backward()
    untouched = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert untouched == []


@pytest.mark.parametrize(("name", "axes", "kind"), MOST)
def test_same_seed_same_network(name, axes, kind):
    model, signature = build(name, kind, ORDINARY[axes], seed=5)
    again, _ = build(name, kind, ORDINARY[axes], seed=5)
    other, _ = build(name, kind, ORDINARY[axes], seed=6)
    x = inputs(signature, 2)
    assert torch.equal(model(x), again(x))
    assert not torch.equal(model(x), other(x))


@pytest.mark.parametrize(("name", "axes", "kind"), MOST)
def test_copies_and_state_dicts_hold_everything(name, axes, kind):
    model, signature = build(name, kind, ORDINARY[axes], seed=5)
    x = inputs(signature, 2)
    model(x)  # moves running statistics away from their start
    model.eval()
    copied = copy.deepcopy(model)
    loaded = build(name, kind, ORDINARY[axes], seed=6)[0].eval()
    loaded.load_state_dict(model.state_dict())
    assert torch.equal(copied(x), model(x))
    assert torch.equal(loaded(x), model(x))
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.add_(1.0)
    assert not torch.equal(copied(x), model(x))


@pytest.mark.parametrize("name", sorted(backbones))
def test_an_input_does_not_see_the_rest_of_its_batch(name):
    model, signature = build(name, "dense" if name in NO_POOLING else "regression", ORDINARY[axes_of(name)[:2][-1]])
    model.eval()
    x = inputs(signature, 4)
    torch.testing.assert_close(model(x)[1:2], model(x[1:2]))


@pytest.mark.parametrize("name", sorted(backbones))
def test_float64(name):
    model, signature = build(name, "dense" if name in NO_POOLING else "regression", ORDINARY[axes_of(name)[:2][-1]])
    x = inputs(signature, 2)
    y = model.eval()(x)
    precise = model.double()(x.double())
    assert precise.dtype == torch.float64
    torch.testing.assert_close(precise.float(), y, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", sorted(backbones))
def test_bfloat16_autocast(name):
    model, signature = build(name, "dense" if name in NO_POOLING else "regression", ORDINARY[axes_of(name)[:2][-1]])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = model(inputs(signature, 2))
    assert y.isfinite().all()
    y.float().sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize(
    ("name", "axes", "kind"),
    chosen(
        [case for case in ONE_KIND if case[1] == 2 or case[0] in ("fno", "cnn", *NO_POOLING, *SIGNALS)],
        lambda case: (case[1] != 2 and case[0] not in SIGNALS) or case[0] in LARGE,
    ),
)
def test_exports_with_any_batch(name, axes, kind):
    model, signature = build(name, kind, AWKWARD[axes][-1])
    model.eval()
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(model, (inputs(signature, 2),), dynamic_shapes=({0: batch},))
    for size in (5, 1):
        x = inputs(signature, size)
        torch.testing.assert_close(program.module()(x), model(x))


def test_exports_with_tokens():
    signature = Signature("classification", 1, (9,), 4, vocabulary=11)
    model = make_backbone("resnet", signature, {"width": 6}).eval()
    tokens = torch.arange(45).reshape(5, 9) % 11
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(model, (tokens[:2],), dynamic_shapes=({0: batch},))
    torch.testing.assert_close(program.module()(tokens), model(tokens))


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize(
    ("signature", "what"),
    [
        (Signature("classification", 1, (9,), 3), "a classification task: choose inception"),
        (Signature("segmentation", 1, (9,), 3), "a segmentation task: choose unet"),
        (Signature("dense", 1, (9,), 1, vocabulary=11), "a dense task of tokens: choose unet"),
    ],
)
def test_refuses_what_is_no_field_of_numbers(name, signature, what):
    with pytest.raises(Unsuited, match=f"backbone '{name}' gives numbers at every position .* this is {what}"):
        make_backbone(name, signature, {})


@pytest.mark.parametrize("name", sorted(set(backbones) - set(NUMBERS)))
def test_reads_tokens(name):
    kind = "segmentation" if name == "unet" else "classification"
    signature = Signature(kind, 1, (9,), 4, vocabulary=11)
    model = make_backbone(name, signature, SMALL.get(name, {}))
    check_output(model, signature, name)
    model.eval()
    tokens = torch.arange(18).reshape(2, 9) % 10
    changed = tokens.clone()
    changed[0, 4] = 10
    assert not torch.equal(model(tokens)[0], model(changed)[0])
    assert torch.equal(model(tokens)[1], model(changed)[1])


def gradients_on_the_gpu(name, kind, axes):
    model, signature = build(name, kind, ORDINARY[axes])
    model.cuda()
    model(inputs(signature, 4).cuda()).square().sum().backward()
    return [p.grad for p in model.parameters()]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
# Pooling over three axes has no deterministic backward pass on CUDA; it belongs to these networks.
@pytest.mark.parametrize(
    ("name", "axes", "kind"),
    [case for case in ONE_KIND if case[0] not in ("lenet", "inception", "pyramidnet") or case[1] < 3],
)
def test_deterministic_on_the_gpu(name, axes, kind, monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    try:
        first, second = gradients_on_the_gpu(name, kind, axes), gradients_on_the_gpu(name, kind, axes)
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("name", "axes", "kind"), MOST)
def test_same_answers_on_the_gpu(name, axes, kind):
    model, signature = build(name, kind, ORDINARY[axes])
    model.eval()
    x = inputs(signature, 3)
    expected = model(x)
    model.cuda()
    torch.testing.assert_close(model(x.cuda()).cpu(), expected, rtol=1e-2, atol=1e-3 * expected.abs().max().item())
    with torch.autocast("cuda", dtype=torch.bfloat16):
        rough = model(x.cuda()).float().cpu()
    assert (rough - expected).norm() < 0.1 * expected.norm()
