"""Batches for a training: data that fits lives on the device as one tensor, the rest is streamed ahead."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from eclose.config import Config
from eclose.signature import Signature
from eclose.tasks import Split, Task
from eclose.train.augment import Augmentation
from eclose.train.changes import Fill
from eclose.train.parallel import World
from eclose.train.seeds import generator_for

_SHARE_OF_MEMORY = 0.4  # of the free device memory that data may take


class Batches:
    """Samples of a split on a device, by number."""

    def __init__(self, split: Split, signature: Signature, device: torch.device) -> None:
        self.split = split
        self.signature = signature
        self.device = device
        self._resident: tuple[Tensor, Tensor] | None = None
        self._lasting: tuple[Tensor, Tensor] | None = None
        if device.type == "cuda" and split.bytes <= _SHARE_OF_MEMORY * torch.cuda.mem_get_info(device)[0]:
            x, y = split.all()
            self._resident = x.to(device), self._target(y.to(device))

    def __len__(self) -> int:
        return len(self.split)

    def batches(self, indices: Sequence[Tensor], *, reuse: bool = False) -> Iterator[tuple[Tensor, Tensor]]:
        """``x, y`` for each index tensor, in turn; ``reuse``: batches on a GPU may overwrite those before."""
        if self._resident is not None:
            return self._from_device(indices, reuse)
        if self.device.type == "cpu":
            return (self._fetch(index) for index in indices)
        return self._ahead(indices)

    def _from_device(self, indices: Sequence[Tensor], reuse: bool) -> Iterator[tuple[Tensor, Tensor]]:
        assert self._resident is not None
        if not indices:
            return iter(())
        x, y = self._resident
        # One copy of all numbers, not one a batch, and from pinned memory: others wait for the device.
        order = self._pinned(torch.cat(list(indices))).to(self.device, non_blocking=True)
        parts = order.split([len(index) for index in indices])
        return (self._in_place(x, y, rows) if reuse else (x[rows], y[rows]) for rows in parts)

    def _in_place(self, x: Tensor, y: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """In the same two tensors for every batch of the usual size: a CUDA graph then reads them where they lie."""
        if self._lasting is None or len(rows) > len(self._lasting[0]):
            self._lasting = x[: len(rows)].clone(), y[: len(rows)].clone()
        if len(rows) < len(self._lasting[0]):
            return x[rows], y[rows]
        for source, there in zip((x, y), self._lasting, strict=True):
            torch.index_select(source, 0, rows, out=there)
        return self._lasting

    def _ahead(self, indices: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
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
        return self._pinned(x), self._pinned(self._target(y))

    def _pinned(self, values: Tensor) -> Tensor:
        return values.pin_memory() if self.device.type == "cuda" else values

    def _target(self, y: Tensor) -> Tensor:
        return y.long() if self.signature.labels else y.float()


class Feed:
    """The batches of a training by their numbers: shuffled anew every epoch, augmented, this process's share of each.

    Batch ``number`` is the same whoever asks, and whenever: a training that goes on after an interruption, or a step
    that reads a second feed beside the loop's, keeps no state. Batches asked for in turn are read ahead. On a GPU the
    next batch may overwrite this one.
    """

    def __init__(
        self,
        split: Split,
        signature: Signature,
        batch: int,
        seed: int,
        augment: Augmentation,
        device: torch.device,
        world: World,
        name: str = "",
    ) -> None:
        self.data = Batches(split, signature, device)
        self.batch_size, self.seed, self.augment, self.world = batch, seed, augment, world
        self.name = name  # draws other numbers than a feed of another name
        self.dense = not signature.pooled
        self.classes = max(2, signature.outputs) if signature.labels else 0
        self.sizes = [len(rows) for rows in self._order(0)]  # of the batches of every epoch
        self.steps = len(self.sizes)
        self._coming: Iterator[tuple[Tensor, Tensor]] = iter(())
        self._number = -1  # of the batch that comes next

    @classmethod
    def of(cls, task: Task, config: Config, seed: int, device: torch.device, world: World, name: str = "") -> "Feed":
        """The training samples of a task, augmented as the configuration says."""
        # The mean is zero once standardised, whatever the units of the user's data; of levelled samples their own is.
        fill: Fill = 0.0
        if task.scale is not None:
            fill = task.scale.x_mean if task.scale.levels is None else None
        augment = Augmentation(config.augment.names, config.augment.options, fill)
        return cls(task.train, task.signature, config.train.batch, seed, augment, device, world, name)

    def batch(self, number: int) -> tuple[Tensor, Tensor, int]:
        """Inputs and targets of this process, and the number of samples of all processes."""
        if number != self._number:
            self._begin(number)
        step = number % self.steps
        x, y = next(self._coming)
        self._number = number + 1
        if step + 1 == self.steps:
            self._begin(number + 1)  # now: at the end of an epoch a loop waits for the device, which then has no work
        return *self._augmented(x, y, number, self.sizes[step]), self.sizes[step]

    def _begin(self, number: int) -> None:
        """The batches from this one to the last of its epoch come next."""
        epoch, step = divmod(number, self.steps)
        parts = [rows[self._part(len(rows))] for rows in self._order(epoch)[step:]]
        self._coming = self.data.batches(parts, reuse=True)

    def _order(self, epoch: int) -> list[Tensor]:
        return training_order(len(self.data), self.batch_size, self._generator("order", epoch))

    def _augmented(self, x: Tensor, y: Tensor, number: int, size: int) -> tuple[Tensor, Tensor]:
        if not self.augment.options:
            return x, y
        # Drawn for the whole batch on every process, so that the shares together equal one process's batch.
        part, share = self._part(size), self.world.share(size)
        known = {"classes": self.classes, "batch": size, "start": part.start}
        x, y = self.augment.pair(x, y, self._generator("augment", number), self.dense, **known)
        own = slice(share.start - part.start, share.stop - part.start)
        return x[own], y[own]

    def _part(self, size: int) -> slice:
        """What is read of a batch: this process's share, with the partners of its samples where samples are blended."""
        share = self.world.share(size)
        if not self.augment.blends:
            return share
        return slice(share.start // 2 * 2, min(size, (share.stop + 1) // 2 * 2))

    def _generator(self, what: str, number: int) -> torch.Generator:
        return generator_for(self.seed, f"{self.name}{what}", number)


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
