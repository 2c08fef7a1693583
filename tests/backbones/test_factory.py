import pytest
import torch
from torch import nn

from eclose.backbones import backbones, check_output, default_backbone, make_backbone, regions, strongest
from eclose.backbones.consent import Consent, consenting
from eclose.backbones.factory import check_training
from eclose.backbones.reference import hand_in
from eclose.errors import ConfigError
from eclose.signature import Signature

IMAGE = Signature("classification", 3, (8, 8), 4)


def refusal(name, signature, options=None):
    with pytest.raises(ConfigError) as caught:
        make_backbone(name, signature, options or {})
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("classification", ("inception", "resnet", "resnet")),
        ("regression", ("inception", "resnet", "resnet")),
        ("dense", ("fno", "fno", "fno")),
        ("segmentation", ("unet", "unet", "unet")),
    ],
)
@pytest.mark.parametrize("space", [(9,), (4, 3), (3, 3, 2)])
def test_the_default_fits(kind, names, space):
    signature, name = Signature(kind, 2, space, 5), names[len(space) - 1]
    assert default_backbone(signature) == name
    check_output(make_backbone(name, signature, {}), signature, name)


@pytest.mark.parametrize("kind", ["classification", "regression", "dense", "segmentation"])
@pytest.mark.parametrize("space", [(1,), (40,), (128,), (8, 8), (6, 5, 4)])
def test_the_strongest_fit(kind, space):
    signature = Signature(kind, 2, space, 3)
    for name in strongest(signature):
        check_output(make_backbone(name, signature, {}), signature, name)


@pytest.mark.parametrize("kind", ["classification", "regression", "dense", "segmentation"])
@pytest.mark.parametrize("length", [1, 2, 40])
def test_the_strongest_of_tokens_fit(kind, length):
    signature = Signature(kind, 1, (length,), 3, vocabulary=7)
    assert (default_backbone(signature) == "kim") is signature.pooled
    for name in strongest(signature):
        check_output(make_backbone(name, signature, {}), signature, name)


@pytest.mark.parametrize("kind", ["classification", "regression"])
@pytest.mark.parametrize("space", [(2,), (64,), (1, 9), (8, 8), (6, 1, 4)])
def test_networks_by_regions_fit(kind, space):
    signature = Signature(kind, 2, space, 3)
    check_output(make_backbone("resnet", signature, {"regions": regions(signature)}), signature, "resnet")
    assert regions(signature) == {1: 16, 2: 4, 3: 3}[len(space)]


def test_where_there_is_nothing_to_tell_apart():
    assert regions(Signature("dense", 1, (99,), 1)) == 1
    assert regions(Signature("classification", 30, (1,), 3)) == 1


def test_tables_have_no_use_for_long_kernels():
    assert default_backbone(Signature("classification", 30, (1,), 3)) == "resnet"


def test_names():
    assert sorted(backbones) == [
        *("ccnn", "cnn", "fno", "inception", "kim", "lenet", "linear", "linear_plus", "pyramidnet"),
        *("random_filters", "resnet", "resnet20", "spectrogram", "spherical", "tcn", "unet", "wide-lenet"),
        "wrn40-4",
    ]


def test_unknown_name():
    assert refusal("resnet2", IMAGE) == (
        "unknown backbone 'resnet2'; did you mean 'resnet20'? known: ccnn, cnn, fno, inception, kim, lenet, "
        "linear, linear_plus, pyramidnet, random_filters, resnet, resnet20, spectrogram, spherical, tcn, unet, "
        "wide-lenet, wrn40-4; your own network is named as package.module:attribute"
    )


def test_unknown_option():
    """Only a file can have it: a user's options are looked at before."""
    assert refusal("resnet", IMAGE, {"width": 32, "kernel": 3}) == (
        "backbone 'resnet' has no option 'kernel' in this version of eclose: "
        "open the run with the version that made it, or search again"
    )


def test_wrong_type_of_option():
    assert refusal("resnet20", IMAGE, {"width": "wide"}) == "backbone.width is 'wide', but must be a whole number"


def test_options_arrive():
    assert make_backbone("resnet20", IMAGE, {"width": 5})[0].out_channels == 5
    assert make_backbone("lenet", IMAGE, {"widths": [2, 3]})[0].out_channels == 2


@pytest.mark.parametrize("name", ["lenet", "pyramidnet", "resnet", "resnet20", "wrn40-4"])
def test_one_answer_a_sample_only(name):
    assert refusal(name, Signature("dense", 1, (32, 32), 1)) == (
        f"backbone '{name}' gives one answer a sample and cannot do dense; choose unet, fno, inception, tcn or cnn"
    )


def test_an_answer_at_every_position_only():
    assert refusal("unet", IMAGE) == (
        "backbone 'unet' gives an answer at every position and cannot do classification; "
        "choose inception, resnet, tcn, fno or cnn"
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
    model = make_backbone("cnn", signature, {})
    assert model.embedding.table.weight.shape == (9, 64)
    assert model.network.lift.in_channels == 64 + 1
    check_output(model, signature, "cnn")


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
    assert x.dtype == torch.float32  # whatever the type of the parameters, as in training
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


@pytest.mark.parametrize("kind", ["float16", "float64"])
def test_check_names_the_type_of_the_parameters(kind):
    model = tiny().to(getattr(torch, kind))
    assert check_refusal(model).endswith(f" and take float32, but it has parameters of {kind}")


def test_check_catches_an_exit():
    class Leaves(nn.Module):
        def forward(self, x):
            raise SystemExit(3)

    assert "SystemExit: 3" in check_refusal(Leaves())


def tiny():
    return nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Dropout(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


class Around(nn.Module):
    """A network that can be trained, to be spoiled."""

    def __init__(self):
        super().__init__()
        self.network = tiny()

    def forward(self, x):
        return self.network(x)


def training_refusal(model, batch=2):
    with pytest.raises(ConfigError) as caught:
        check_training(model, IMAGE, "mine", batch)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("backbone 'mine' ")
    return str(caught.value)


@pytest.mark.parametrize("batch", [1, 2])
def test_training_check_leaves_no_trace(batch):
    model = tiny().eval()
    model[2].train()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    state = torch.random.get_rng_state()
    check_training(model, IMAGE, "mine", batch)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert [part.training for part in model] == [False, False, True, False, False]
    assert torch.equal(state, torch.random.get_rng_state())


def test_training_check_leaves_expanded_buffers_alone():
    model = tiny()
    model.register_buffer("expanded", torch.zeros(1).expand(4))
    check_training(model, IMAGE, "mine")


def test_training_check_runs_in_training_mode():
    class Raises(Around):
        def forward(self, x):
            if self.training:
                raise RuntimeError("two\n  lines")
            return super().forward(x)

    check_output(Raises(), IMAGE, "mine")
    assert "failed in training on an input of shape (2, 3, 8, 8): RuntimeError: two lines" in training_refusal(Raises())


def test_training_check_wants_a_tensor():
    class Pair(Around):
        def forward(self, x):
            y = super().forward(x)
            return (y, y) if self.training else y

    check_output(Pair(), IMAGE, "mine")
    assert "gives a tuple in training" in training_refusal(Pair())


@pytest.mark.parametrize("spoil", [torch.Tensor.detach, lambda y: y.round().long(), lambda y: y.to(torch.complex64)])
def test_training_check_wants_a_gradient(spoil):
    class Spoilt(Around):
        def forward(self, x):
            return spoil(super().forward(x))

    assert "through which no gradient reaches its parameters" in training_refusal(Spoilt())


def test_training_check_goes_back_too():
    class Changes(Around):
        def forward(self, x):
            y = super().forward(x).exp()
            return y + y.add_(1)  # the backward of exp needs its output

    assert "failed in its backward pass: RuntimeError: one of the variables" in training_refusal(Changes())


def test_training_check_refuses_sparse_gradients():
    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(2, 4, sparse=True)

        def forward(self, x):
            return self.table((x.mean((1, 2, 3)) > 0).long())

    assert "has sparse gradients, which are not supported: leave out sparse=True" in training_refusal(Table())


@pytest.mark.parametrize("model", [nn.Flatten(), tiny().requires_grad_(False)])
def test_training_check_wants_parameters(model):
    assert training_refusal(model) == "backbone 'mine' has nothing to train: no parameter requires a gradient"


def test_training_check_wants_a_state_of_tensors():
    class Extra(Around):
        def get_extra_state(self):
            return {"steps": 3}

    assert training_refusal(Extra()) == (
        "backbone 'mine' has '_extra_state' (a dict) in its state_dict, but weights are saved as tensors only: "
        "make it a buffer, or leave out get_extra_state"
    )


def test_training_check_with_a_single_sample():
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 4), nn.BatchNorm1d(4))
    check_training(model, IMAGE, "mine")
    text = training_refusal(model, batch=1)
    assert "Expected more than 1 value per channel" in text
    assert text.endswith(", or the batches (train.batch) must have 2 samples or more")


class TestLazyLayers:
    @pytest.fixture(autouse=True)
    def _consent(self):
        with consenting(Consent(everything=True)):
            yield

    def test_are_initialised_by_an_example(self):
        name = hand_in(lambda: nn.Sequential(nn.LazyConv2d(2, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(4)))
        torch.manual_seed(3)
        model = make_backbone(name, IMAGE, {})
        assert model[0].weight.shape == (2, 3, 3, 3)
        assert model[1].num_batches_tracked == 0
        assert model.training
        check_training(model, IMAGE, name)
        torch.manual_seed(3)
        assert torch.equal(make_backbone(name, IMAGE, {})[3].weight, model[3].weight)

    def test_of_a_finished_network(self):
        name = hand_in(nn.Sequential(nn.Flatten(), nn.LazyLinear(4)))
        assert make_backbone(name, IMAGE, {})[1].weight.shape == (4, 192)

    def test_that_are_not_used_are_refused(self):
        network = Around()
        network.more = nn.LazyLinear(4)
        assert refusal(hand_in(network), IMAGE).endswith(
            "has lazy layers that its forward does not use: leave them out"
        )

    def test_that_do_not_fit_are_refused(self):
        assert "for an input of shape (2, 3, 8, 8)" in refusal(hand_in(nn.Sequential(nn.LazyLinear(4))), IMAGE)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("name", ["cnn", "fno", "resnet", "unet"])
def test_sizes_that_follow_from_the_input_are_those_of_the_network(name: str, axes: int) -> None:
    signature = Signature("regression" if name == "resnet" else "dense", 1, (9, 8, 8)[:axes], 1)
    member = backbones[name]
    used = member.effective(signature, **member.options)
    assert used.keys() == member.options.keys()
    assert all(used[key] > 0 for key in ("width", "modes", "kernel") if key in used)
    plain, told = make_backbone(name, signature, {}), make_backbone(name, signature, used)
    shapes = [{key: value.shape for key, value in network.state_dict().items()} for network in (plain, told)]
    assert shapes[0] == shapes[1]
    kernel = member.effective(signature, **{**member.options, "modes": 3}).get("kernel") if name == "cnn" else 4
    assert kernel == 4
