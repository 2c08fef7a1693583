import contextlib
import math
import os
import stat

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError
from torch import nn

from eclose.errors import RunError
from eclose.train import checkpoint, load_tensors, save_tensors
from eclose.train.checkpoint import load_state, save_state

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.bool]


@st.composite
def tensors(draw):
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    dtype = draw(st.sampled_from(DTYPES))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    return torch.randint(0, 100, shape, generator=generator).to(dtype)


KEYS = st.one_of(st.text(max_size=4), st.integers(), st.booleans())
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), tensors())
STATES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple) | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=12,
)


def same(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        types = [type(key) for key in a] == [type(key) for key in b]
        return types and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return (a == b and math.copysign(1, a) == math.copysign(1, b)) or (math.isnan(a) and math.isnan(b))
    return a == b


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STATES)
@example({"tensor": "t0", "dict": [], "list": {"tuple": ()}})
@example([math.inf, -0.0, 2**80, "\ud800", "\x00", {0: 1, "0": 2}])
@example({"a": torch.tensor(3.0), "b": torch.zeros(0, 2), "c": torch.eye(3).T[::2]})
def test_nested_states_round_trip(tmp_path, state):
    path = tmp_path / "state.safetensors"
    save_state(path, state)
    assert same(load_state(path), state)


@pytest.mark.parametrize("make", [torch.optim.AdamW, torch.optim.Adadelta, torch.optim.SGD])
def test_an_optimiser_goes_on_as_if_nothing_had_happened(tmp_path, make):
    def trained(steps, state=None):
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimiser = make(model.parameters(), lr=0.1)
        if state is not None:
            model.load_state_dict(state["model"])
            optimiser.load_state_dict(state["optimiser"])
        for _ in range(steps):
            optimiser.zero_grad()
            model(torch.ones(1, 3)).square().sum().backward()
            optimiser.step()
        return model, optimiser

    model, optimiser = trained(2)
    save_state(tmp_path / "s", {"model": dict(model.state_dict()), "optimiser": optimiser.state_dict()})
    resumed, _ = trained(3, load_state(tmp_path / "s"))
    whole, _ = trained(5)
    assert torch.equal(resumed.weight, whole.weight)


def test_tied_and_overlapping_tensors(tmp_path):
    weight = torch.arange(6.0).view(2, 3)
    state = {"a": weight, "b": weight, "row": weight[1], "t": weight.T}
    save_state(tmp_path / "s", state)
    back = load_state(tmp_path / "s")
    assert all(torch.equal(back[name], state[name]) for name in state)
    save_tensors(tmp_path / "t", state)
    assert all(torch.equal(tensor, state[name]) for name, tensor in load_tensors(tmp_path / "t").items())


def test_parameters_become_plain_tensors(tmp_path):
    save_tensors(tmp_path / "t", {"w": nn.Parameter(torch.ones(2))})
    back = load_tensors(tmp_path / "t")["w"]
    assert type(back) is torch.Tensor
    assert not back.requires_grad


def test_nothing_to_save(tmp_path):
    save_tensors(tmp_path / "t", {})
    assert load_tensors(tmp_path / "t") == {}


def test_a_failure_leaves_the_old_file(tmp_path):
    save_state(tmp_path / "s", {"a": 1})
    with pytest.raises(AssertionError, match="in a checkpoint"):
        save_state(tmp_path / "s", {"a": object()})
    assert load_state(tmp_path / "s") == {"a": 1}
    assert os.listdir(tmp_path) == ["s"]


def test_others_may_read_the_file_as_they_may_any(tmp_path):
    (tmp_path / "usual").touch()
    save_state(tmp_path / "s", {"a": torch.ones(3)})
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("usual", "s")}
    assert len(modes) == 1


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("Error while serializing: I/O error: No space left on device (os error 28)", "No space left on device"),
        ("Error while serializing: I/O error: oh", "Error while serializing: I/O error: oh"),
    ],
)
def test_a_full_disk(tmp_path, monkeypatch, message, text):
    def fail(*args, **kwargs):
        raise SafetensorError(message)

    save_state(tmp_path / "s", 1)
    monkeypatch.setattr(checkpoint, "save_file", fail)
    with pytest.raises(OSError) as error:
        save_state(tmp_path / "s", 2)
    assert error.value.strerror == text
    assert load_state(tmp_path / "s") == 1
    assert os.listdir(tmp_path) == ["s"]


# Damage --------------------------------------------------------------------------------------------------------


STATE = {"a": [1, 2.5, None, True, "x", (1, 2)], "t": torch.arange(4.0), "n": {1: torch.zeros(0, 3)}}


def damaged(path):
    with pytest.raises(RunError) as error:
        load_state(path)
    text = str(error.value)
    assert text.startswith(f"{path} is damaged (")
    assert text.endswith("): delete it, and `eclose resume` trains that part again from its start")
    assert "\n" not in text


def test_missing(tmp_path):
    for action in (load_state, load_tensors):
        with pytest.raises(RunError) as error:
            action(tmp_path / "s")
        wanted = f"{tmp_path / 's'} is missing: the run has not got that far, or the folder was changed"
        assert str(error.value) == wanted


def test_truncated_anywhere(tmp_path):
    path = tmp_path / "s"
    save_state(path, STATE)
    content = path.read_bytes()
    for size in range(0, len(content), 5):
        path.write_bytes(content[:size])
        damaged(path)


def test_a_flipped_bit_in_the_header_is_either_harmless_or_named(tmp_path):
    path = tmp_path / "s"
    save_state(path, STATE)
    content = path.read_bytes()
    header = 8 + int.from_bytes(content[:8], "little")
    refused = 0
    for place in range(0, header):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        with contextlib.suppress(RunError):
            load_state(path)
            continue
        damaged(path)
        refused += 1
    assert refused > header / 2


def test_damaged_weights(tmp_path):
    path = tmp_path / "w"
    save_tensors(path, {"w": torch.ones(2)})
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(RunError) as error:
        load_tensors(path)
    assert str(error.value).startswith(f"{path} is damaged (")
    wanted = "): restore it from a copy, or delete it and result.json and `eclose resume` the run"
    assert str(error.value).endswith(wanted)


@pytest.mark.parametrize("content", [b"", b"{}", b"\x00" * 100, b"\xff" * 100, b"hello world, this is a text file"])
def test_something_else(tmp_path, content):
    path = tmp_path / "s"
    path.write_bytes(content)
    damaged(path)


@pytest.mark.parametrize(
    "metadata",
    [{}, {"state": "{"}, {"state": '{"tensor": "t9"}'}, {"state": '{"dict": 3}'}, {"state": '{"dict": [], "a": 1}'}],
)
def test_a_file_of_tensors_is_no_state(tmp_path, metadata):
    path = tmp_path / "s"
    save_tensors(path, {"w": torch.ones(2)}, metadata)
    damaged(path)
