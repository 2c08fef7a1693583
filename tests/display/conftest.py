import pytest


@pytest.fixture(scope="module", autouse=True)
def pictures() -> None:
    """Drawn."""
