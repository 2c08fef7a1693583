import json

import pytest

from eclose.signature import KINDS, Signature

SPACES = [(1,), (7,), (4, 5), (2, 3, 4)]


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(
    ("kind", "pooled", "labels"),
    [
        ("classification", True, True),
        ("regression", True, False),
        ("dense", False, False),
        ("segmentation", False, True),
    ],
)
def test_shapes(kind, pooled, labels, space):
    signature = Signature(kind, 3, space, 6)
    assert (signature.pooled, signature.labels, signature.tokens) == (pooled, labels, False)
    assert signature.axes == len(space)
    assert signature.input_shape(2) == (2, 3, *space)
    assert signature.output_shape(2) == ((2, 6) if pooled else (2, 6, *space))


def test_tokens_have_no_channel_axis():
    signature = Signature("dense", 1, (9,), 4, vocabulary=20)
    assert signature.tokens
    assert signature.input_shape(5) == (5, 9)
    assert signature.output_shape(5) == (5, 4, 9)


@pytest.mark.parametrize("kind", KINDS)
def test_json_round_trip(kind):
    signature = Signature(kind, 2, (3, 4), 5, 6)
    assert Signature.from_dict(json.loads(json.dumps(signature.as_dict()))) == signature


def test_runs_written_before_sizes_had_their_name_are_read() -> None:
    signature = Signature("dense", 2, (4, 5), 1)
    before = {("space" if name == "sizes" else name): value for name, value in signature.as_dict().items()}
    assert Signature.from_dict(before) == signature
