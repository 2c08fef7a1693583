import dataclasses
import math
import tomllib

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eclose.config import FORMAT, SECTIONS, Config, from_dict, parse_overrides, read_toml, to_toml
from eclose.errors import ConfigError

TEXT = st.text(st.characters(codec="utf-8"))
SCALARS = st.one_of(
    TEXT,
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=12
)
TABLES = st.dictionaries(TEXT, VALUES, max_size=4)

BUDGET = "known: minutes, training_seconds, trials"


def same(a, b):
    """Equal in type and value, where NaN equals NaN and -0.0 differs from 0.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return a == b


def values_first(data):
    """TOML keeps plain values of a table before its tables."""
    if not isinstance(data, dict):
        return data
    ordered = sorted(data.items(), key=lambda item: isinstance(item[1], dict))
    return {key: values_first(value) for key, value in ordered}


@settings(max_examples=300, deadline=None)
@given(TABLES)
@example({"a": {}, "b": {"c": {}}})
@example({"": {"": ""}})
@example({"a.b": {'"': "\\", "'": "\"\"\"\n'''", "#": "# no comment"}})
@example({"\U0001f98b": "\U0001f98b\x00\x7f\x1f\x85\u2028\ufeff", "\x7f": [[], {}]})
@example({"x": [math.inf, -math.inf, math.nan, -0.0, 1e16, 5e-324, 1.7e308]})
@example({"x": [{"a": {"b": [{}]}}], "y": {"x": [1, "a", 2.5, True]}})
def test_toml_round_trip(data):
    assert same(tomllib.loads(to_toml(data)), values_first(data))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["task", "backbone", "space", "strategy", "loss", "optimiser", "augment"]), TABLES)
@example("backbone", {"name": "an option with the name of a field", "options": {"a": 1}, "a.b": 2, "": 3})
def test_options_of_any_name_survive_a_run_folder(section, options):
    part = dataclasses.replace(getattr(Config(), section), options=options)
    config = dataclasses.replace(Config(), **{section: part})
    back = from_dict(tomllib.loads(config.to_toml()))
    assert same(getattr(back, section).options, values_first(options))
    assert dataclasses.replace(getattr(back, section), options={}) == dataclasses.replace(part, options={})


def test_defaults_round_trip():
    assert from_dict(tomllib.loads(Config().to_toml())) == Config()


def test_every_default_is_written_out():
    data = tomllib.loads(Config().to_toml())
    assert data["format"] == FORMAT
    for section in SECTIONS:
        fields = {f.name for f in dataclasses.fields(getattr(Config(), section))} - {"options"}
        assert set(data[section]) == fields


def test_empty_options_leave_no_heading():
    assert "options" not in Config().to_toml()


def test_changed_values_round_trip():
    config = Config().with_values(
        {
            "task.data": 'C:\\a "b"\n\x7f\U0001f98b',
            "train.epochs": 3,
            "optimiser.learning_rate": 1,
            "augment.names": ["crop", "flip"],
            "augment.crop.padding": 4,
            "budget.minutes": math.inf,
            "backbone.width": 12,
        }
    )
    assert config.optimiser.learning_rate == 1.0
    assert config.augment.names == ("crop", "flip")
    assert config.augment.options == {"crop": {"padding": 4}}
    back = from_dict(tomllib.loads(config.to_toml()))
    assert back == config
    assert type(back.optimiser.learning_rate) is float


def test_from_dict_changes_only_what_is_given():
    config = from_dict({"train": {"batch": 7}, "backbone": {"options": {"depth": 2}}})
    assert config.train == dataclasses.replace(Config().train, batch=7)
    assert config.backbone.options == {"depth": 2}
    assert Config().backbone.options == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"backbone.width": 8, "backbone.depth": 2},
        {"backbone.options.width": 8, "backbone.options.depth": 2},
        {"backbone.options": {"width": 8, "depth": 2}},
        {"backbone.options": {"width": 8}, "backbone.depth": 2},
    ],
)
def test_three_ways_to_set_options(changes):
    assert Config().with_values(changes).backbone.options == {"width": 8, "depth": 2}


@pytest.mark.parametrize("stage", ["", "final.", "teacher."])
@pytest.mark.parametrize(("first", "second"), [("warmup", "warmup_epochs"), ("warmup_epochs", "warmup")])
def test_one_way_to_say_a_warmup_replaces_the_other(stage, first, second):
    keys = [f"{stage}schedule.{name}" for name in (first, second)]
    config = Config().with_values({keys[0]: 0.5}).with_values({keys[1]: 0.25})
    told = getattr(config, stage[:-1]).options["schedule"] if stage else vars(config.schedule)
    assert (told[first], told[second]) == (0.0, 0.25)
    both = Config().with_values(dict.fromkeys(keys, 0.5))
    told = getattr(both, stage[:-1]).options["schedule"] if stage else vars(both.schedule)
    assert told[first] == told[second] == 0.5, "two ways at once are refused, not chosen from"


def test_a_truth_value_that_may_be_a_word():
    for value in (True, False, "channels", "levels", "pointwise"):
        config = from_dict(tomllib.loads(Config().with_values({"task.standardise": value}).to_toml()))
        assert (config.task.standardise, type(config.task.standardise)) == (value, type(value))
    assert parse_overrides(["task.standardise=pointwise"]) == {"task.standardise": "pointwise"}
    with pytest.raises(
        ConfigError, match="task.standardise is 'no', but must be true or false, or one of: channels, levels, pointwise"
    ):
        Config().with_values({"task.standardise": "no"})


def test_an_option_with_the_name_of_a_field():
    config = Config().with_values({"backbone.name": "mine:net", "backbone.options.name": "inner"})
    assert config.backbone.name == "mine:net"
    assert config.backbone.options == {"name": "inner"}


def test_nested_options_are_added_to_and_replaced():
    config = Config().with_values({"augment.crop.padding": 4, "augment.crop.fill": 1, "augment.flip": 3})
    config = config.with_values({"augment.crop.padding": 2, "augment.flip.probability": 0.5})
    assert config.augment.options == {"crop": {"padding": 2, "fill": 1}, "flip": {"probability": 0.5}}


KNOWN = f"known: {', '.join(sorted(SECTIONS))}"
BASELINES = "known: baselines, options, start"


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("trian.epochs", 3, "unknown setting 'trian.epochs': no section 'trian'; did you mean 'train'? " + KNOWN),
        ("epochs", 3, "unknown setting 'epochs': no section 'epochs'; " + KNOWN),
        (
            "compare.baseline",
            3,
            "unknown setting 'compare.baseline' of [compare]; did you mean 'baselines'? " + BASELINES,
        ),
        ("budget", 3, f"unknown setting 'budget' of [budget]; {BUDGET}"),
        ("budget.", 3, f"unknown setting 'budget.' of [budget]; {BUDGET}"),
        (
            "budget.options",
            {},
            f"unknown setting 'budget.options' of [budget]; {BUDGET}",
        ),
        (
            "budget.options.limit",
            3,
            f"unknown setting 'budget.options.limit' of [budget]; {BUDGET}",
        ),
        ("backbone.", 3, "unknown setting 'backbone.' of [backbone]; known: name, options"),
        ("backbone.options", 3, "backbone.options is 3, but must be a table"),
        ("train.epochs", "3", "train.epochs is '3', but must be a whole number"),
        ("train.epochs", 3.0, "train.epochs is 3.0, but must be a whole number"),
        ("train.epochs", True, "train.epochs is True, but must be a whole number"),
        ("optimiser.clip", "1", "optimiser.clip is '1', but must be a number"),
        ("task.tokens", 1, "task.tokens is 1, but must be true or false"),
        ("space.name", 3, "space.name is 3, but must be text"),
        ("compare.baselines", "fno", "compare.baselines is 'fno', but must be a list: 'compare.baselines=[\"fno\"]'"),
        ("augment.names", [3], "augment.names is 3, but must be text"),
    ],
)
def test_bad_settings(key, value, text):
    with pytest.raises(ConfigError) as error:
        Config().with_values({key: value})
    assert str(error.value) == text


def test_numbers_of_numpy_are_numbers():
    config = Config().with_values({"train.epochs": np.int32(3), "optimiser.clip": np.float32(0.5)})
    assert config.train.epochs == 3
    assert tomllib.loads(config.to_toml())["optimiser"]["clip"] == 0.5


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"tusk": {}}, "unknown section [tusk]; did you mean 'task'? known: augment, backbone"),
        ({"task": 3}, "'task' is 3, but must be a section: [task] with its settings below"),
        ({"train": {"epochs": "x"}}, "train.epochs is 'x', but must be a whole number"),
        ({"train": {"options": {"a": 1}}}, "unknown setting 'train.options' of [train]; known: batch"),
        ({"task": {"options": 3}}, "task.options is 3, but must be a table"),
        ({"format": 2}, "format 2 is not 1: written by another version of eclose; use that version"),
        ({"format": "1"}, "format '1' is not 1: written by another version of eclose; use that version"),
        ({"format": True}, "format True is not 1: written by another version of eclose; use that version"),
    ],
)
def test_bad_data(data, text):
    with pytest.raises(ConfigError) as error:
        from_dict(data)
    assert str(error.value).startswith(text)


@pytest.mark.parametrize(
    ("pair", "key", "value"),
    [
        ("train.epochs=3", "train.epochs", 3),
        ("train.epochs = 3", "train.epochs", 3),
        ("optimiser.clip=1e-3", "optimiser.clip", 1e-3),
        ("optimiser.clip=inf", "optimiser.clip", math.inf),
        ("task.tokens=true", "task.tokens", True),
        ("task.tokens=True", "task.tokens", "True"),
        ("space.name=xd", "space.name", "xd"),
        ("space.name = xd ", "space.name", "xd"),
        ('space.name="xd"', "space.name", "xd"),
        ("space.name='3'", "space.name", "3"),
        ("space.name=", "space.name", ""),
        ("task.data=a=b.npz", "task.data", "a=b.npz"),
        ("task.data=2024-01-31", "task.data", "2024-01-31"),
        ("task.data=07:30:00", "task.data", "07:30:00"),
        ("task.data=run#2.npz", "task.data", "run#2.npz"),
        ("task.data=1\nother=2", "task.data", "1\nother=2"),
        ('augment.names=["crop", "flip"]', "augment.names", ["crop", "flip"]),
        ("augment.options={crop = {padding = 4}}", "augment.options", {"crop": {"padding": 4}}),
        ("x.y=" + 5000 * "[", "x.y", 5000 * "["),
    ],
)
def test_overrides(pair, key, value):
    got = parse_overrides([pair])
    assert got == {key: value}
    assert type(got[key]) is type(value)


def test_the_last_override_counts():
    assert parse_overrides(["a.b=1", "a.b=2"]) == {"a.b": 2}


@pytest.mark.parametrize("pair", ["train.epochs", "", "=3", " =3"])
def test_bad_overrides(pair):
    with pytest.raises(ConfigError) as error:
        parse_overrides([pair])
    assert str(error.value) == f"--set {pair!r} is not of the form section.key=value, e.g. train.epochs=10"


def test_read_toml(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text("a = '\u00e9'\n", encoding="utf-8")
    assert read_toml(path) == {"a": "\u00e9"}


@pytest.mark.parametrize(
    "content",
    [b"a = ", b"a = 1\na = 2", b"\xff", b"\x00", b"a = " + 5000 * b"["],
    ids=["value", "twice", "?", "0", "["],
)
def test_bad_toml(tmp_path, content):
    path = tmp_path / "a.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as error:
        read_toml(path)
    assert str(error.value).startswith(f"{path} is not valid TOML: ")
    assert "\n" not in str(error.value)


def test_no_toml_file(tmp_path):
    with pytest.raises(ConfigError) as error:
        read_toml(tmp_path / "a.toml")
    assert str(error.value) == f"cannot read {tmp_path / 'a.toml'}: No such file or directory"
    with pytest.raises(ConfigError) as error:
        read_toml(tmp_path)
    assert str(error.value) == f"cannot read {tmp_path}: Is a directory"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None (NoneType) cannot be written as TOML"),
        (1j, "1j (complex) cannot be written as TOML"),
        ("a\udcff", "'a\\udcff' cannot be written as TOML: it is not valid Unicode; rename it"),
    ],
)
def test_what_toml_cannot_hold(value, text):
    with pytest.raises(ConfigError) as error:
        to_toml({"a": {"b": [value]}})
    assert str(error.value) == text
