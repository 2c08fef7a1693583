"""Which networks a run compares with, and with which options."""

import numpy as np
import pytest

from eclose.config import Config
from eclose.engine import complete
from eclose.engine.baselines import baselines
from eclose.engine.plan import without_replaced
from eclose.errors import ConfigError
from eclose.signature import Signature
from eclose.tasks import Reading, task_from_arrays

TASK = task_from_arrays(
    "fields", {name: np.random.default_rng(0).normal(size=(20, 1, 32)) for name in ("x", "y")}, Reading(axes=1)
)
SIGNAL = Signature(kind="dense", channels=1, sizes=(32,), outputs=1)


def found(**settings):
    names = {key.replace("__", "."): value for key, value in settings.items()}
    return {name: one.choices["options"] for name, one in baselines(Config().with_values(names), SIGNAL).items()}


def test_the_backbone_of_a_search_is_compared_as_it_started():
    options = {"space__name": "xd", "backbone__name": "cnn", "backbone__width": 8, "compare__baselines": ["cnn", "fno"]}
    networks = found(**options, backbone__norm=True)
    assert networks["cnn"]["width"] == 8
    assert networks["cnn"]["norm"]
    assert networks["fno"]["width"] == 64  # its own default


def test_options_are_for_all_others_that_have_them():
    networks = found(compare__baselines=["cnn", "fno", "lenet"], compare__width=12, compare__kernel=5)
    assert networks["cnn"]["width"] == networks["fno"]["width"] == 12
    assert networks["cnn"]["kernel"] == 5
    assert "kernel" not in networks["fno"]


def test_a_network_beside_itself_is_the_default_one():
    networks = found(backbone__name="cnn", backbone__width=8, compare__baselines=["cnn"])
    assert list(networks) == ["cnn (default)"]
    assert networks["cnn (default)"]["width"] == 64


def test_an_option_that_nobody_has_is_refused():
    with pytest.raises(ConfigError, match=r"compare.kernel: no baseline \(fno\) has an option 'kernel'; leave it out"):
        found(compare__baselines=["fno"], compare__kernel=3)
    assert found(compare__kernel=3) == {}  # nobody to have it


def test_a_search_on_a_clock_is_compared_with_its_start():
    def beside(**settings):
        given = {key.replace("__", "."): value for key, value in settings.items()}
        return list(baselines(complete(Config().with_values(given), TASK), TASK.signature))

    assert beside(space__name="xd", backbone__name="cnn", budget__minutes=1.0) == ["cnn"]
    assert beside(space__name="xd", backbone__name="cnn") == []  # it would take time of its own
    assert beside(space__name="xd", backbone__name="cnn", compare__start=True) == ["cnn"]
    assert beside(space__name="xd", backbone__name="cnn", budget__minutes=1.0, compare__start=False) == []
    given = {"space__name": "xd", "backbone__name": "cnn", "budget__minutes": 1.0}
    assert beside(**given, compare__baselines=["fno"]) == ["fno", "cnn"]
    assert beside(**given, compare__baselines=["cnn", "fno"]) == ["cnn", "fno"]
    assert beside(space__name="einspace", budget__minutes=1.0) == ["resnet (start)"]
    assert beside(space__name="portfolio") == []
    assert beside(space__name="backbone", budget__minutes=1.0) == []
    with pytest.raises(ConfigError, match=r"compare.start: a search of 'backbone' has no single start: leave it out"):
        beside(space__name="backbone", compare__start=True)


def test_options_of_a_recipe_go_with_its_baselines():
    recipe = Config().with_values({"compare.baselines": ["cnn", "fno"], "compare.norm": True, "compare.kernel": 3})
    assert without_replaced(recipe, {"compare.baselines": ("fno",)}).compare.options == {"norm": True}
    assert without_replaced(recipe, {"compare.baselines": ()}).compare.options == {}
    assert without_replaced(recipe, {}).compare == recipe.compare
