from typing import Literal

import numpy as np
import pytest

from eclose.errors import ConfigError
from eclose.registry import Registry, coerce, nearest


@pytest.fixture
def animals():
    registry = Registry("animal")

    @registry.register("cat")
    def cat(signature, *, lives: int = 9, weight: float = 4.5, colour: str = "grey", tame: bool = True):
        """Purrs.

        And more.
        """
        return signature, lives, weight, colour, tame

    @registry.register("fish")
    def fish(*, fins: bool | Literal["few", "many"] = True, fins_of: tuple[str, ...] = ()):
        return fins, fins_of

    @registry.register("ghost")
    class Ghost:
        def __init__(self, config):
            pass

    return registry


def test_members_by_name(animals):
    assert list(animals) == ["cat", "fish", "ghost"]
    assert len(animals) == 3
    assert "cat" in animals
    assert "dog" not in animals
    assert 3 not in animals
    assert animals["cat"].name == "cat"
    assert animals["cat"].summary == "Purrs."
    assert animals["ghost"].summary == ""


def test_options_are_the_keyword_only_parameters(animals):
    assert animals["cat"].options == {"lives": 9, "weight": 4.5, "colour": "grey", "tame": True}
    assert animals["ghost"].options == {}


def test_complete_fills_in_defaults_in_the_order_of_the_function(animals):
    complete = animals["cat"].complete({"tame": False, "weight": 4}, "pet")
    assert complete == {"lives": 9, "weight": 4.0, "colour": "grey", "tame": False}
    assert list(complete) == ["lives", "weight", "colour", "tame"]
    assert type(complete["weight"]) is float
    assert animals["cat"].make("x", **complete) == ("x", 9, 4.0, "grey", False)


@pytest.mark.parametrize("value", [False, True, "few", "many"])
def test_words_beside_another_type(animals, value):
    assert animals["fish"].complete({"fins": value}, "pet") == {"fins": value, "fins_of": ()}


def test_a_name_is_registered_once(animals):
    with pytest.raises(AssertionError, match="animal 'cat' registered twice"):
        animals.register("cat")(lambda: None)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("kat", "unknown animal 'kat'; did you mean 'cat'? known: cat, fish, ghost"),
        ("zebra", "unknown animal 'zebra'; known: cat, fish, ghost"),
        ("", "unknown animal ''; known: cat, fish, ghost"),
    ],
)
def test_unknown_member(animals, name, text):
    with pytest.raises(ConfigError) as error:
        animals[name]
    assert str(error.value) == text


@pytest.mark.parametrize(
    ("member", "given", "text"),
    [
        (
            "cat",
            {"live": 3},
            "pet: 'cat' has no option 'live'; did you mean 'lives'? known: colour, lives, tame, weight",
        ),
        ("ghost", {"lives": 3}, "pet: 'ghost' has no option 'lives'; it has no options"),
        ("cat", {"lives": "9"}, "pet.lives is '9', but must be a whole number"),
        ("cat", {"lives": 9.0}, "pet.lives is 9.0, but must be a whole number"),
        ("cat", {"lives": True}, "pet.lives is True, but must be a whole number"),
        ("cat", {"weight": "heavy"}, "pet.weight is 'heavy', but must be a number"),
        ("cat", {"weight": False}, "pet.weight is False, but must be a number"),
        ("cat", {"colour": 3}, "pet.colour is 3, but must be text"),
        ("cat", {"tame": 1}, "pet.tame is 1, but must be true or false"),
        ("cat", {"tame": "true"}, "pet.tame is 'true', but must be true or false"),
        ("fish", {"fins": "some"}, "pet.fins is 'some', but must be true or false, or one of: few, many"),
        ("fish", {"fins": 1}, "pet.fins is 1, but must be true or false, or one of: few, many"),
        ("fish", {"fins_of": "few"}, "pet.fins_of is 'few', but must be a list: 'pet.fins_of=[\"few\"]'"),
    ],
)
def test_bad_options(animals, member, given, text):
    with pytest.raises(ConfigError) as error:
        animals[member].complete(given, "pet")
    assert str(error.value) == text


@pytest.mark.parametrize(
    ("value", "default", "wanted"),
    [
        (3, 0.0, 3.0),
        (np.float32(0.5), 0.0, 0.5),
        (np.int64(7), 0, 7),
        (np.int64(7), 0.0, 7.0),
        ([1, 2], (0.0,), (1.0, 2.0)),
        ((), (0,), ()),
        ([1, "a"], (), (1, "a")),
        ({"a": 1}, {}, {"a": 1}),
        (True, False, True),
    ],
)
def test_coerce(value, default, wanted):
    got = coerce(value, default, "here")
    assert got == wanted
    assert type(got) is type(wanted)
    if isinstance(wanted, tuple):
        assert [type(item) for item in got] == [type(item) for item in wanted]


@pytest.mark.parametrize(
    ("value", "default", "text"),
    [
        ("fno", ("",), "here is 'fno', but must be a list: 'here=[\"fno\"]'"),
        ("[mix,crop]", ("",), "here is '[mix,crop]', but must be a list: 'here=[\"mix\", \"crop\"]'"),
        ([1], ("",), "here is 1, but must be text"),
        ([["a"]], ("",), "here is ['a'], but must be text"),
        (3, {}, "here is 3, but must be a table"),
        (None, 0, "here is None, but must be a whole number"),
        (1j, 0.0, "here is 1j, but must be a number"),
    ],
)
def test_coerce_refuses(value, default, text):
    with pytest.raises(ConfigError) as error:
        coerce(value, default, "here")
    assert str(error.value) == text


def test_a_word_may_be_the_default():
    """``bool | Literal["auto"] = "auto"``: true and false are options, other words are not."""
    assert [coerce(value, "auto", "here", ("auto",)) for value in ("auto", True, False)] == ["auto", True, False]
    with pytest.raises(ConfigError, match="here is 'on', but must be true or false, or one of: auto"):
        coerce("on", "auto", "here", ("auto",))


def test_nearest_of_nothing():
    assert nearest("a", []) == "known: "
