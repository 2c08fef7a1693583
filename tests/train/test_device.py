import dataclasses
import platform
import subprocess
import sys

import pytest
import torch

from eclose.config import RunSection
from eclose.errors import ConfigError
from eclose.train import choose_device, device, few_threads, torch_settings, usual_torch
from eclose.train.device import Pace, passing_shapes, repeats, usual_precision


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
        torch.backends.cudnn.allow_tf32,
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.backends.cudnn.benchmark,
        torch.utils.deterministic.fill_uninitialized_memory,
    )


@pytest.fixture
def on_gpu(monkeypatch):
    monkeypatch.setattr(device, "choose_device", lambda name: torch.device("cuda" if name == "auto" else name))


FULL, FAST = ("highest", False), ("high", True)
REPEATED, QUICK = (True, True, False, False), (False, True, True, False)


@pytest.mark.parametrize(
    ("where", "deterministic", "precision", "inside"),
    [
        ("cuda", True, "float32", (1, *FULL, *REPEATED)),
        ("cuda", False, "float32", (1, *FULL, *QUICK)),
        ("cuda", False, "tf32", (1, *FAST, *QUICK)),
        ("auto", True, "tf32", (1, *FAST, *REPEATED)),
        ("auto", False, "bfloat16", (1, "highest", True, *QUICK)),
        ("cpu", False, "float32", (1, *FULL, *REPEATED)),
    ],
)
def test_settings_hold_inside_and_are_restored(where, deterministic, precision, inside, on_gpu):
    section = RunSection(threads=1, device=where, deterministic=deterministic)
    before = state()
    with torch_settings(section, precision):
        assert state() == inside
    assert state() == before
    with pytest.raises(ValueError, match="inner"), torch_settings(section, precision):
        raise ValueError("inner")
    assert state() == before


def test_what_the_user_set_by_the_newer_switches_stays():
    """Torch refuses to read the older ones then."""
    conv = getattr(torch.backends.cudnn, "conv", None)
    if not hasattr(conv, "fp32_precision"):
        pytest.skip("this torch has one way only")
    before = conv.fp32_precision
    try:
        conv.fp32_precision = "ieee"
        with torch_settings(RunSection(device="cpu"), "tf32"):
            assert conv.fp32_precision == "ieee"
        assert conv.fp32_precision == "ieee"
    finally:
        conv.fp32_precision = before
    assert torch.backends.cudnn.allow_tf32


def test_algorithms_are_not_tried_out_for_shapes_that_come_seldom(on_gpu):
    with torch_settings(RunSection(device="cuda"), "tf32"):
        with passing_shapes():
            assert not torch.backends.cudnn.benchmark
        with pytest.raises(ValueError, match="inner"), passing_shapes():
            raise ValueError("inner")
        assert torch.backends.cudnn.benchmark


@pytest.mark.parametrize(("name", "precision"), [("cpu", "float32"), ("cuda", "tf32"), ("cuda:1", "tf32")])
def test_the_usual_precision(name, precision):
    assert usual_precision(torch.device(name)) == precision


@pytest.mark.parametrize(
    ("where", "asked", "repeated"), [("cpu", False, True), ("cuda", False, False), ("cuda", True, True)]
)
def test_which_runs_repeat(where, asked, repeated, on_gpu):
    assert repeats(RunSection(device=where, deterministic=asked)) == repeated


def test_threads():
    before = torch.get_num_threads()
    with torch_settings(RunSection(threads=2), "float32"):
        assert torch.get_num_threads() == 2
    with torch_settings(RunSection(threads=0), "float32"):
        assert torch.get_num_threads() == before
    assert torch.get_num_threads() == before


def test_few_threads_beside_a_gpu(on_gpu):
    before = torch.get_num_threads()
    try:
        for threads, where, inside in ((9, "cuda", 4), (3, "cuda", 3), (9, "cpu", 9)):
            torch.set_num_threads(threads)
            with few_threads(RunSection(device=where)):
                assert torch.get_num_threads() == inside
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


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


@pytest.fixture
def unusual():
    """What a user may have set for all of torch."""
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    with torch.inference_mode():
        yield
    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)


def test_usual_torch(unusual):
    with usual_torch():
        made = torch.zeros(1, requires_grad=True) * 2
        assert (made.dtype, made.device.type, made.requires_grad) == (torch.float32, "cpu", True)
        assert not made.is_inference()
    made = torch.zeros(1)
    assert (made.dtype, made.device.type, made.is_inference()) == (torch.float64, "meta", True)


def test_a_training_is_few_steps_ahead_of_its_gpu(monkeypatch):
    recorded, waited = [], []

    class Event:
        def __init__(self, blocking):
            assert blocking  # the CPU has other things to do meanwhile

        def record(self, stream):
            assert stream == "the stream of cuda:1"
            recorded.append(self)

        def synchronize(self):
            waited.append(recorded.index(self))

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"the stream of {device}")
    pace, waits = Pace(torch.device("cuda", 1)), []
    for _ in range(7):
        pace.handed_over()
        waits.append(len(waited))
    assert waits == [0, 0, 0, 0, 1, 2, 3]
    assert waited == [0, 1, 2]


def test_a_cpu_does_its_steps_itself(no_cuda):
    pace = Pace(torch.device("cpu"))
    for _ in range(7):
        pace.handed_over()
