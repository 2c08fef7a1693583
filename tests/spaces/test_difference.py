"""Differences between outputs are told from rounding."""

from typing import Any

import pytest
import torch

from eclose.spaces.difference import difference, precision_of

T = torch.tensor
NAN, INF = float("nan"), float("inf")
SINGLE = torch.finfo(torch.float32).eps


@pytest.mark.parametrize(
    ("ours", "theirs", "found"),
    [
        (T([1.0, 2.0]), T([1.0, 2.0001]), ""),
        (T([1.0, 2.0]), T([1.0, 2.5]), "an output that is up to 0.5 away, of values up to 2.5"),
        (T([1.0, -900.0]), T([1.1, -900.0]), ""),
        (T([NAN, INF, 1.0]), T([NAN, INF, 1.0]), ""),
        (T([NAN, 1.0]), T([1.0, 1.0]), "up to nan away"),
        (T([1.0]), T([INF]), "up to inf away, of values up to 0"),
        (T([1.0 + 1.0j]), T([1.0 + 2.0j]), "up to 1 away, of values up to 2.2"),
        (T([3]), T([4]), ""),
        (T([3]), T([3, 4]), r"an output of shape (1,) in place of (2,)"),
        (torch.zeros(0, 2), torch.zeros(0, 2), ""),
        (T([1.0], dtype=torch.bfloat16), T([1.05], dtype=torch.bfloat16), ""),
        ({"a": (T([1.0]), None), "b": [T([2.0])]}, {"a": (T([1.0]), None), "b": [T([3.0])]}, "up to 1 away"),
        ([T([1.0])], [T([1.0]), T([1.0])], "1 tensors in place of 2"),
        (T([1.0]).to_sparse(), T([2.0]).to_sparse(), ""),
        ("text", "other text", ""),
    ],
)
def test_difference(ours: Any, theirs: Any, found: str) -> None:
    told = difference(ours, theirs, SINGLE)
    assert found in told
    assert bool(told) == bool(found)


def test_precision() -> None:
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    assert precision_of(torch.float32, cpu) == SINGLE
    assert precision_of(torch.float32, cuda) == 2**-10, "TF32"
    assert precision_of(torch.float64, cuda) == torch.finfo(torch.float64).eps
    with torch.autocast("cpu", torch.bfloat16):
        assert precision_of(torch.float32, cpu) == torch.finfo(torch.bfloat16).eps
