"""A task: data with splits, the signature of the network it needs, and the scale of its values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from eclose.errors import ConfigError, RunError
from eclose.ops.standardise import Levels
from eclose.signature import Signature


@dataclass(frozen=True)
class Split:
    """Samples by number. Arrays may be memory maps: only the samples asked for are read.

    ``rows`` selects samples of the arrays without copying them; ``orders`` permutes the space axes.
    """

    x: Tensor  # (samples, channels, *space), or (samples, length) tokens
    y: Tensor
    rows: Tensor | None = None  # (n,) long
    orders: tuple[Tensor, ...] = ()  # one permutation a space axis
    dense: bool = False  # y has the space axes of x and moves with them

    def __len__(self) -> int:
        return len(self.x) if self.rows is None else len(self.rows)

    @property
    def bytes(self) -> int:
        """Size of all samples in memory."""
        each = sum(a[0].numel() * a.element_size() for a in (self.x, self.y)) if len(self.x) else 0
        return each * len(self)

    def take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """The samples ``index`` as tensors in memory."""
        rows = index if self.rows is None else self.rows[index]
        x, y = widened(self.x[rows]).contiguous(), self.y[rows]
        for axis, order in enumerate(self.orders):
            x = x.index_select(x.ndim - len(self.orders) + axis, order)
            if self.dense:
                y = y.index_select(y.ndim - len(self.orders) + axis, order)
        return x, y

    def all(self) -> tuple[Tensor, Tensor]:
        """Every sample."""
        return self.take(torch.arange(len(self)))

    def select(self, keep: Tensor) -> "Split":
        """The samples ``keep``, without copying."""
        return replace(self, rows=keep if self.rows is None else self.rows[keep])


def random_orders(sizes: Sequence[int], seed: int, setting: str) -> tuple[Tensor, ...]:
    """One fixed random order of every axis (Roberts et al. 2021, section 4); ``setting`` is where the seed is from."""
    if not 0 <= seed < 2**63:
        raise ConfigError(f"{setting} is {seed}, but must lie between 0 and 2**63 - 1")
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randperm(size, generator=generator) for size in sizes)


def widened(values: Tensor) -> Tensor:
    """16-bit unsigned numbers as 32-bit ones: torch can store them but hardly compute with them."""
    return values.int() if values.dtype == torch.uint16 else values


@dataclass(frozen=True)
class Scale:
    """Mean and spread of inputs and of continuous targets, by channel and output or by point of a grid as well."""

    x_mean: Tensor  # (channels,) or (channels, *space); with levels that of the sample in the middle
    x_std: Tensor
    y_mean: Tensor  # (outputs,) or (outputs, *space)
    y_std: Tensor
    levels: Levels | None = None  # of inputs, where samples of very different size are brought nearer

    @property
    def pointwise(self) -> bool:
        """Whether every point of the grid has its own."""
        return self.x_mean.ndim > 1


@dataclass(frozen=True)
class Layout:
    """How the user's arrays stand to inputs and outputs of the network: needed again for predictions."""

    channels: str = "first"  # where x has them, see :class:`~eclose.tasks.own_data.reading.Reading`
    classes: tuple[int | str, ...] = ()  # the user's label of class 0, 1, ...
    columns: tuple[str, ...] = ()  # of a table, in their order
    label: str = ""  # the column of a table that is y

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, data: Any, signature: Signature) -> "Layout":
        """Inverse of :meth:`as_dict`; checks what a file from elsewhere may say."""
        data = data if isinstance(data, Mapping) else {}
        classes, columns = data.get("classes", []), data.get("columns", [])
        if not _names(classes) or not _names(columns):
            raise RunError("'layout' in the result is damaged: its classes and columns must be lists of names")
        if classes and len(classes) != signature.outputs:
            raise RunError(f"the result names {len(classes)} classes, but the network has {signature.outputs}")
        return cls(str(data.get("channels", "first")), tuple(classes), tuple(columns), str(data.get("label", "")))


def _names(value: Any) -> bool:
    return isinstance(value, list) and {type(item) for item in value} in (set(), {int}, {str})


@dataclass(frozen=True)
class Task:
    """What to learn, ready for training."""

    name: str
    signature: Signature
    train: Split
    val: Split
    test: Split | None
    scale: Scale | None  # None: values are left as they are
    about: dict[str, Any] = field(default_factory=dict)  # how the data came to be, for reports
    layout: Layout = Layout()
    doubts: tuple[str, ...] = ()  # guesses about the user's data that may be wrong, with the way to change them
    source: str = ""  # the name of the user's file
    zero_targets: bool = False  # some target of a dense task is zero: no error can be relative to it

    @property
    def splits(self) -> dict[str, Split]:
        """The splits that exist, by name."""
        named = {"train": self.train, "val": self.val, "test": self.test}
        return {name: split for name, split in named.items() if split is not None}

    def with_splits(self, splits: Mapping[str, Split]) -> "Task":
        """The same task on other samples."""
        return replace(self, train=splits["train"], val=splits["val"], test=splits.get("test"))
