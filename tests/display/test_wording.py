"""Numbers as people read them."""

import math

import pytest

from eclose.display.wording import count, duration, listed, number, score, share, shortened, whole


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0123456, "0.0123"),
        (0.5, "0.500"),
        (12.0, "12.0"),
        (123.4, "123"),
        (12345.6, "12346"),
        (1.2345e7, "1.23e7"),
        (1.2345e-7, "1.23e-7"),
        (-0.25, "−0.250"),
        (0, "0"),
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "–"),
        (True, "–"),
    ],
)
def test_number(value: object, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(950, "950"), (1234, "1.23 k"), (999_999, "1 M"), (1_200_000, "1.2 M"), (3.4e9, "3.4 G"), (0, "0"), (None, "–")],
)
def test_count(value: object, text: str) -> None:
    assert count(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.6, "1 min"),
        (200.4, "3 min 20 s"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (97_300, "1 d 3 h"),
        (None, "–"),
    ],
)
def test_duration(seconds: object, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.978, "97.8 %"), (0.99871, "99.87 %"), (0.0123, "1.23 %"), (1.0, "100 %"), (0.0, "0 %")]
)
def test_share(value: float, text: str) -> None:
    assert share(value) == text


def test_words() -> None:
    assert score("accuracy", 0.5) == "50.0 %"
    assert score("mse", 0.5) == "0.500"
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed([]) == ""
    assert shortened("a  b") == "a b"
    assert shortened("x" * 61) == "x" * 59 + "…"
    assert whole(1234567) == "1,234,567"
