"""Batches for a training: data that fits lives on the device as one tensor, the rest is streamed ahead."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from eclose.signature import Signature
from eclose.tasks import Split

_SHARE_OF_MEMORY = 0.4  # of the free device memory that data may take


class Batches:
    """Samples of a split on a device, by number."""

    def __init__(self, split: Split, signature: Signature, device: torch.device) -> None:
        self.split = split
        self.signature = signature
        self.device = device
        self._resident: tuple[Tensor, Tensor] | None = None
        if device.type == "cuda" and split.bytes <= _SHARE_OF_MEMORY * torch.cuda.mem_get_info(device)[0]:
            x, y = split.all()
            self._resident = x.to(device), self._target(y.to(device))

    def __len__(self) -> int:
        return len(self.split)

    def batches(self, indices: tuple[Tensor, ...] | list[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """``x, y`` for each index tensor, in turn."""
        if self._resident is not None:
            return self._from_device(indices)
        if self.device.type == "cpu":
            return (self._fetch(index) for index in indices)
        return self._ahead(indices)

    def _from_device(self, indices: tuple[Tensor, ...] | list[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        assert self._resident is not None
        if not indices:
            return
        x, y = self._resident
        # One copy of all numbers, not one a batch: every copy from host memory waits for the device.
        sizes = [len(index) for index in indices]
        order = torch.cat(list(indices)).to(self.device)
        for rows in order.split(sizes):
            yield x[rows], y[rows]

    def _ahead(self, indices: tuple[Tensor, ...] | list[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """The next batch is read while the device works on this one."""
        with ThreadPoolExecutor(1) as reader:
            pending = [reader.submit(self._fetch, index) for index in indices[:2]]
            for index in [*indices[2:], None, None]:
                if not pending:
                    return
                x, y = pending.pop(0).result()
                if index is not None:
                    pending.append(reader.submit(self._fetch, index))
                yield x.to(self.device, non_blocking=True), y.to(self.device, non_blocking=True)

    def _fetch(self, index: Tensor) -> tuple[Tensor, Tensor]:
        x, y = self.split.take(index)
        y = self._target(y)
        return (x.pin_memory(), y.pin_memory()) if self.device.type == "cuda" else (x, y)

    def _target(self, y: Tensor) -> Tensor:
        return y.long() if self.signature.labels else y.float()


def training_order(count: int, batch: int, generator: torch.Generator) -> list[Tensor]:
    """Sample numbers of one epoch, shuffled, in batches.

    A last batch of a single sample is left out: batch normalisation cannot train on it.
    """
    order = torch.randperm(count, generator=generator)
    batches = list(order.split(batch))
    return batches[:-1] if len(batches) > 1 and len(batches[-1]) == 1 else batches


def usual_batch(count: int) -> int:
    """A power of two that gives about 20 steps an epoch, between 8 and 128."""
    wanted = max(8, min(128, count // 20))
    return int(2 ** (wanted.bit_length() - 1))
