import dataclasses
import platform
import subprocess
import sys

import pytest
import torch

from eclose.config import RunSection
from eclose.errors import ConfigError
from eclose.train import choose_device, torch_settings


@pytest.fixture
def cuda(monkeypatch):
    """Two CUDA devices."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("LOCAL_RANK", raising=False)


@pytest.fixture
def no_cuda(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_without_cuda(no_cuda):
    assert choose_device("auto") == torch.device("cpu")
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("cpu:0") == torch.device("cpu")
    for name in ("cuda", "cuda:0"):
        with pytest.raises(ConfigError) as error:
            choose_device(name)
        assert str(error.value) == "no CUDA device is available here; use --device cpu"


def test_with_cuda(cuda, monkeypatch):
    used = []
    monkeypatch.setattr(torch.cuda, "set_device", used.append)
    assert choose_device("auto") == torch.device("cuda", 0)
    assert choose_device("cuda:1") == torch.device("cuda", 1)
    assert used == [0, 1]
    assert choose_device("cpu") == torch.device("cpu")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert choose_device("cuda") == torch.device("cuda", 1)
    assert choose_device("cuda:0") == torch.device("cuda", 0)
    monkeypatch.setenv("LOCAL_RANK", "2")
    for name, index in (("auto", 2), ("cuda:5", 5)):
        with pytest.raises(ConfigError) as error:
            choose_device(name)
        assert str(error.value) == f"there is no cuda:{index}, only 2 CUDA device(s)"


@pytest.mark.parametrize("name", ["", "gpu", "cuda:x", "cuda:-1", "CPU", "3"])
def test_unknown(name):
    with pytest.raises(ConfigError) as error:
        choose_device(name)
    assert str(error.value) == f"unknown device '{name}'; use auto, cpu, cuda or cuda:N"


@pytest.mark.parametrize("name", ["meta", "mps", "xpu"])
def test_not_supported(name):
    with pytest.raises(ConfigError) as error:
        choose_device(name)
    assert str(error.value) == f"device '{name}' is not supported; use auto, cpu, cuda or cuda:N"


def state():
    return (
        torch.get_num_threads(),
        torch.get_float32_matmul_precision(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.backends.cudnn.benchmark,
    )


@pytest.mark.parametrize(
    ("deterministic", "precision", "inside"),
    [
        (True, "float32", (1, "highest", True, True, False)),
        (False, "float32", (1, "highest", False, False, True)),
        (True, "tf32", (1, "high", True, True, False)),
        (True, "bfloat16", (1, "highest", True, True, False)),
    ],
)
def test_settings_hold_inside_and_are_restored(deterministic, precision, inside):
    section = RunSection(threads=1, deterministic=deterministic)
    before = state()
    with torch_settings(section, precision):
        assert state()[:3] == inside[:3]
        assert state()[4] == inside[4]
    assert state() == before
    with pytest.raises(ValueError, match="inner"), torch_settings(section, precision):
        raise ValueError("inner")
    assert state() == before


def test_threads():
    before = torch.get_num_threads()
    with torch_settings(RunSection(threads=2), "float32"):
        assert torch.get_num_threads() == 2
    with torch_settings(RunSection(threads=0), "float32"):
        assert torch.get_num_threads() == before
    assert torch.get_num_threads() == before


def test_unknown_precision():
    before = state()
    with (
        pytest.raises(ConfigError) as error,
        torch_settings(dataclasses.replace(RunSection(), threads=2), "float64"),
    ):
        pass
    wanted = "train.precision is 'float64', but must be one of float32, tf32, bfloat16, float16"
    assert str(error.value) == wanted
    assert state() == before


PAGES = """
import resource, torch
from eclose.config import RunSection
from eclose.train import torch_settings

def pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [torch.ones(2**20) for _ in range(10)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

with torch_settings(RunSection(), "float32"):
    print(pages(), pages())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other libraries have other rules")
def test_freed_memory_is_kept():
    """40 MB, written to twice; without the setting both times page by page."""
    told = subprocess.run([sys.executable, "-c", PAGES], capture_output=True, text=True, check=True).stdout
    first, second = map(int, told.split())
    assert second < first / 2
