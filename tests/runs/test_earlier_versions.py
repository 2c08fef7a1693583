"""Settings of earlier versions, where they stand today."""

from typing import Any

import pytest

from eclose.runs.earlier_versions import as_named_now


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"strategy": {"options": {"linear": False, "seeds": True}}}, {"strategy": {"fitted": False, "seeds": True}}),
        ({"strategy": {"options": {"linear": True}}}, {"strategy": {"fitted": True}}),
        ({"strategy": {"options": {"final": 0}}}, {"final": {"networks": 0}}),
        ({"strategy": {"options": {"distance_penalty": 0.0}}}, {}),
        ({"strategy": {"options": {"distance_penalty": 0.5}}}, {"space": {"distance_penalty": 0.5}}),
        ({"budget": {"seconds": 3.0}}, {"budget": {"training_seconds": 3.0}}),
    ],
)
def test_settings_are_moved(before: dict[str, Any], now: dict[str, Any]) -> None:
    told = as_named_now(before)
    found: dict[str, Any] = {}
    for section, values in told.items():
        options = values.pop("options", {})
        found[section] = options | {key.removeprefix("options."): value for key, value in values.items()}
    assert {section: values for section, values in found.items() if values} == now
