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


def test_what_a_portfolio_is_offered():
    space = BackboneSpace(Config())
    offered = space.offers(IMAGES, [])
    assert [genotype.choices["backbone"] for genotype in offered] == ["resnet", "resnet", "inception"]
    wide, narrow = offered[:2]  # the quick one is early
    assert narrow.choices["options"]["width"] * 4 == wide.choices["options"]["width"]
    assert narrow.description == "narrow resnet"
    assert space.offers(IMAGES, offered) == []
    own = BackboneSpace(Config().with_values({"backbone.name": "lenet"}))
    assert own.offers(Signature("classification", 1, (12, 12), 3), [])[0].choices["backbone"] == "lenet"
