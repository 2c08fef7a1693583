from types import SimpleNamespace

import pytest

from tests.end_to_end.command import forks


@pytest.fixture(autouse=True)
def _quick_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of experiments need not load torch anew."""
    monkeypatch.setattr("benchmarks.rows.multiprocessing", SimpleNamespace(get_context=lambda method: forks()))
