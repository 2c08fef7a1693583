"""The Ray that workers run on (extra ``ray``): one of this machine's own while a search lasts, or a cluster."""

import contextlib
import logging
import math
import os
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Any

import torch

from eclose.config import RunSection
from eclose.errors import ConfigError, Interrupted
from eclose.waiting import wait_briefly

_PATIENCE = 5.0  # seconds to wait for an answer; Ray itself would try for minutes


def import_ray() -> Any:
    """The module ``ray``, told to be quiet; the error names the extra."""
    wait_briefly()  # its workers inherit it
    # Ray reads these once. Dead workers are told by their trials.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "A worker died or was killed")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # what matters of it is told in rows and messages
    try:
        import ray
    except ImportError:
        raise ConfigError("--workers needs Ray: pip install 'eclose[ray]', or leave it out") from None
    return ray


def uses_workers(section: RunSection) -> bool:
    """Whether the trials of a search are trained elsewhere."""
    return section.workers > 1 or bool(section.ray_address)


def check_workers(section: RunSection, strategy: str, many: bool) -> None:
    """Refuse workers where they cannot help, and an address where they cannot be."""
    if not uses_workers(section):
        return
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise ConfigError("--workers and torchrun both start processes: leave one of them out")
    if not many:
        raise ConfigError(
            f"the strategy '{strategy}' trains one network, which --workers cannot divide: leave it out "
            "(workers are for strategies that try many networks, such as evolution and random)"
        )
    if ":" in section.device:
        raise ConfigError(f"--device {section.device} with --workers: workers share all GPUs; use --device cuda")
    if not import_ray().is_initialized() and section.ray_address not in ("", "auto"):
        _check_address(section.ray_address)


def _check_address(address: str) -> None:
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ConfigError(f"--ray-address is '{address}', but must be HOST:PORT, or auto for the Ray of this machine")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
    except (OSError, UnicodeError) as error:
        raise _nobody(address, error) from None


def _nobody(address: str, error: Exception) -> ConfigError:
    reason = str(error).strip().splitlines()[0].partition(". ")[0]
    return ConfigError(f"no Ray at {address} ({reason}): start it with `ray start --head --port 6379`")


class RayCluster:
    """A connection to Ray; one that was there already is used and left as it is."""

    def __init__(self, section: RunSection, device: torch.device, data: int) -> None:
        """``data`` is the size in bytes of what will be sent to the workers."""
        self.ray = import_ray()
        self.workers, self.device = section.workers, device
        self.threads = max(1, section.threads // section.workers)  # of a worker
        self.begun_here = not self.ray.is_initialized()
        if self.begun_here:
            logging.getLogger("ray").setLevel(logging.ERROR)
            with _own_signals():
                self._begin(section.ray_address, data)
        problem = self._misfit(self.ray.cluster_resources())
        if problem:  # workers without a place would be waited for for ever
            self.leave()
            raise ConfigError(problem)

    def share(self) -> dict[str, float]:
        """What a worker takes of the cluster. GPUs go in equal parts, so that as many as needed fit on each."""
        if self.device.type != "cuda":
            return {"num_cpus": self.threads, "num_gpus": 0}
        gpus = int(self.ray.cluster_resources()["GPU"])
        together = -(-self.workers // gpus)
        return {"num_cpus": self.threads, "num_gpus": math.floor(1e4 / together) / 1e4}  # Ray counts in ten-thousandths

    def leave(self) -> None:
        """End the connection, and a Ray of our own."""
        if self.begun_here:
            self.ray.shutdown()

    def _begin(self, address: str, data: int) -> None:
        quiet = {"log_to_driver": False, "configure_logging": False}
        try:
            if address:
                self.ray.init(address, **quiet)
            else:
                gpus = torch.cuda.device_count() if self.device.type == "cuda" else 0
                own = {"num_cpus": self.workers * self.threads, "num_gpus": gpus, "include_dashboard": False}
                self.ray.init("local", object_store_memory=100 * 2**20 + data, **own, **quiet)
        except SystemExit:  # Ray's own answer to SIGTERM
            self.ray.shutdown()
            raise Interrupted from None
        except (ConnectionError, ValueError, RuntimeError) as error:
            if not address:
                raise
            hint = "" if "RAY_AUTH_MODE" in os.environ else " (or set RAY_AUTH_MODE=token, if it wants one)"
            raise ConfigError(f"{_nobody(address, error)}{hint}") from None

    def _misfit(self, there: dict[str, float]) -> str:
        cpus = there.get("CPU", 0.0)
        if self.workers * self.threads > cpus:
            needed = f"{self.workers} workers of {self.threads} threads need as many CPUs"
            return f"{needed}, but the Ray cluster has {cpus:g}: lower --workers or --set run.threads"
        if self.device.type == "cuda" and there.get("GPU", 0.0) < 1:
            return "the Ray cluster has no GPU: use --device cpu"
        return ""


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Ray puts a handler of its own on SIGTERM, which would end the run at once."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)
