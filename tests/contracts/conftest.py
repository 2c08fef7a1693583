import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A contract that asks for ``case`` is tried on every case that its member names."""
    cases = getattr(metafunc.cls, "cases", None)
    if cases and "case" in metafunc.fixturenames:
        metafunc.parametrize("case", cases, ids=str)
