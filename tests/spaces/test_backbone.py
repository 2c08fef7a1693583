import pytest
import torch

from eclose.config import Config
from eclose.errors import ConfigError
from eclose.signature import Signature
from eclose.spaces import backbone_genotype, spaces
from eclose.spaces.backbone import BackboneSpace

IMAGES = Signature("classification", 1, (8, 8), 3)
FIELDS = Signature("dense", 1, (16,), 1)


def test_registered():
    member = spaces["backbone"]
    assert member.options == {}
    assert member.summary.startswith("One network, trained without search")
    assert BackboneSpace.strategy == "train"


@pytest.mark.parametrize(("signature", "name"), [(IMAGES, "resnet"), (FIELDS, "fno")])
def test_the_default_depends_on_the_kind(signature, name):
    space = spaces["backbone"].make(Config())
    genotype = space.start(signature)
    assert genotype.space == "backbone"
    assert genotype.choices["backbone"] == name
    assert genotype.choices["options"]
    model = space.build(genotype, signature)
    assert model(torch.zeros(signature.input_shape(2))).shape == signature.output_shape(2)


def test_options_are_written_out_and_used():
    config = Config().with_values({"backbone.name": "resnet", "backbone.width": 8})
    space = BackboneSpace(config)
    genotype = space.start(IMAGES)
    assert genotype.choices["options"]["width"] == 8
    small = sum(p.numel() for p in space.build(genotype, IMAGES).parameters())
    usual = BackboneSpace(Config())
    assert small < sum(p.numel() for p in usual.build(usual.start(IMAGES), IMAGES).parameters())


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("lenett", {}, "unknown backbone 'lenett'; did you mean 'lenet'? known: "),
        ("resnet", {"widht": 3}, "backbone: 'resnet' has no option 'widht'; did you mean 'width'? known: "),
        ("resnet", {"width": "wide"}, "backbone.width is 'wide', but must be a whole number"),
    ],
)
def test_mistakes(name, options, text):
    with pytest.raises(ConfigError) as error:
        backbone_genotype(name, options, IMAGES)
    assert str(error.value).startswith(text)


SIGNALS = Signature("classification", 1, (128,), 3)


@pytest.mark.parametrize(
    ("signature", "labels", "narrow", "regions"),
    [
        (
            IMAGES,
            ["resnet", "narrow resnet", "inception"],
            ["narrow resnet", "narrow inception"],
            ["narrow resnet by regions"],
        ),
        (
            SIGNALS,
            ["inception", "narrow inception", "resnet", "tcn", "spectrogram"],
            ["narrow inception", "narrow resnet", "narrow tcn", "narrow spectrogram"],
            ["narrow resnet by regions"],
        ),
        (FIELDS, ["fno", "narrow fno", "unet", "cnn"], ["narrow fno", "narrow unet", "narrow cnn"], []),
    ],
)
def test_what_a_portfolio_is_offered(signature, labels, narrow, regions):
    space = BackboneSpace(Config())
    offered = space.offers(signature, [])
    assert [genotype.label for genotype in offered] == labels  # the quick one is early
    assert [genotype.label for genotype in space.narrow(signature)] == narrow
    assert [genotype.label for genotype in space.by_regions(signature)] == regions
    assert space.offers(signature, offered) == []
    wide, quick = (genotype.choices["options"] for genotype in offered[:2])
    assert quick == {**wide, "width": wide["width"] // 4}


def test_a_network_by_regions_that_leads_has_its_usual_width_next():
    space = BackboneSpace(Config())
    (narrow,), usual = space.by_regions(SIGNALS), backbone_genotype("resnet", {}, SIGNALS).choices["options"]
    (wide,) = space.wide(SIGNALS, narrow)
    assert wide.label == "resnet by regions"
    assert wide.choices["options"] == {**usual, "regions": 16, "dropout": 0.5}
    assert narrow.choices["options"] == {**wide.choices["options"], "width": usual["width"] // 4}
    assert not any(space.wide(SIGNALS, other) for other in space.offers(SIGNALS, []))


def test_a_network_of_ones_own_comes_first_and_no_network_twice():
    def offered(**options):
        own = BackboneSpace(Config().with_values({f"backbone.{name}": value for name, value in options.items()}))
        return [genotype.label for genotype in own.offers(SIGNALS, [])]

    assert offered(name="tcn")[0] == "tcn"
    assert offered(name="resnet", width=8).count("resnet") == 1


def test_where_features_count():
    space = BackboneSpace(Config().with_values({"backbone.name": "resnet", "backbone.width": 4, "backbone.regions": 3}))
    signature = Signature("classification", 1, (8, 2), 3)
    genotype = space.start(signature)
    network = space.build(genotype, signature)
    with torch.no_grad():
        weight = network[-1].weight.zero_().unflatten(1, (-1, 3, 2))  # an axis of two points has two regions
        weight[:, :, 2, 0], weight[0, :, 0, 1] = -3.0, 1.0
    _, section = space.explain(genotype, network)
    assert section.title == "Where features count"
    assert "6 regions" in section.sentences[0]
    assert section.table.rows[:3] == (
        ("67 to 100 %, 0 to 50 %", "90.0 %"),
        ("0 to 33 %, 50 to 100 %", "10.0 %"),
        ("0 to 33 %, 0 to 50 %", "0.0 %"),
    )
    usual = backbone_genotype("resnet", {}, signature)
    (only,) = space.explain(usual, space.build(usual, signature))
    assert only.title == "The network"
