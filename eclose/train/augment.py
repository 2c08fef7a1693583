"""The augmentations of a training, one after the other, on samples and their targets.

Those that move points move targets that have positions, too. Of two samples that are blended the targets are blended
in the same shares.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from eclose.errors import ConfigError
from eclose.signature import Signature
from eclose.train.changes import Fill, augmentations, blended, partner_share

_GEOMETRIC = ("crop", "flip")  # these move positions, hence also a target that has positions
_BLENDING = ("mix", "patch")  # these take parts of two samples, and of their targets
_WORDS = {
    "crop": "shifted",
    "flip": "mirrored",
    "cutout": "cut",
    "scale": "scaled",
    "jitter": "noisy",
    "mix": "mixed",
    "patch": "patched",
}


class Augmentation:
    """The augmentations ``names`` in turn, blending ones last, each with its ``options`` (name -> option -> value).

    ``batch`` and ``start`` serve a process that holds only a part, the samples from ``start`` on, of a batch
    of ``batch`` samples: the draw is made for all of them, so that the processes' generators stay in step.
    """

    def __init__(self, names: Sequence[str], options: Mapping[str, Mapping[str, Any]], fill: Fill = 0.0) -> None:
        """``fill``: what comes in from outside or into a hole."""
        for name, values in options.items():
            if name not in names:
                raise ConfigError(f"options for augmentation '{name}', which is not among {list(names)}")
            if not isinstance(values, Mapping):
                known = next(iter(augmentations[name].options))
                raise ConfigError(f"augment.{name} is {values!r}, but must be a table: set augment.{name}.{known}")
        members = sorted((augmentations[name] for name in names), key=lambda member: member.name in _BLENDING)
        self._steps = [
            (member, member.complete(options.get(member.name, {}), f"augmentation.{member.name}")) for member in members
        ]
        self._fill = fill
        self(torch.zeros(1, 1, 1), torch.Generator())  # an option out of range shows here, not in a training

    @property
    def options(self) -> dict[str, dict[str, Any]]:
        """Every option of every augmentation, by name."""
        return {member.name: options for member, options in self._steps}

    @property
    def blends(self) -> bool:
        """Whether samples take parts of their partners, so that both are needed."""
        return any(member.name in _BLENDING for member, _ in self._steps)

    def __call__(self, x: Tensor, generator: torch.Generator, *, batch: int | None = None, start: int = 0) -> Tensor:
        """Changed inputs, of the same shape and type; ``x`` itself if there is no augmentation."""
        # x (batch, channels, *space)
        for member, options in self._steps:
            x = member.make(x, _draw(x, generator, batch, start), self._fill, **options)
        return x

    def pair(
        self,
        x: Tensor,
        y: Tensor,
        generator: torch.Generator,
        dense: bool,
        *,
        classes: int = 0,
        batch: int | None = None,
        start: int = 0,
    ) -> tuple[Tensor, Tensor]:
        """Changed inputs and targets: targets with positions (``dense``) move with the inputs, zero outside.

        The inputs are those of a plain call, if there are classes or no levels. Labels outside become class 0. Where
        samples are mixed, labels of ``classes`` become probabilities, ``(batch, classes, *space)``.
        """
        # x (batch, channels, *space); if dense, y (batch, outputs, *space) or labels (batch, *space)
        for member, options in self._steps:
            draw = _draw(x, generator, batch, start)
            # Quantities may be in proportion to their samples: partners then stay as large as they are.
            fill = self._fill if classes or member.name not in _BLENDING else 0.0
            x = member.make(x, draw, fill, **options)
            if dense and member.name in (*_GEOMETRIC, "patch"):
                channels = y if y.ndim == x.ndim else y.unsqueeze(1)
                y = member.make(channels, draw, 0.0, **options).view(y.shape)
            elif member.name in _BLENDING:
                if classes and not y.is_floating_point():
                    y = functional.one_hot(y, classes).movedim(-1, 1).float()
                y = blended(y, partner_share(member.name, draw, x.shape[2:], options))
        return x, y


def usual_changes(signature: Signature, *, pointwise: bool = False) -> list[dict[str, dict[str, Any]]]:
    """Ways of changing samples that a network which overfits may profit from, by kind of data.

    There is none for signals: on four small sets of them no way was better on average (``changes-cpu``).
    """
    if signature.tokens or signature.axes == 1:
        return []
    changes: list[dict[str, dict[str, Any]]] = [{"flip": {}}]
    if signature.pooled:
        changes = [{"patch": {}}, {"crop": {"share": 0.1}}]
    return [change for change in changes if not (pointwise and set(change) & set(_GEOMETRIC))]


def told_changes(options: Mapping[str, Any]) -> str:
    """In words: ``shifted and mixed``."""
    words = [_WORDS[name] for name in options]
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def check_augmentation(names: Sequence[str], signature: Signature, *, pointwise: bool = False) -> None:
    """Refuse unknown augmentations, any for tokens, which have no order of values to pad or mirror, and those that
    move points where every point has a scale of its own."""
    for name in names:
        member = augmentations[name]
        if pointwise and member.name in _GEOMETRIC:
            raise ConfigError(
                f"augmentation '{member.name}' moves points, and with task.standardise=pointwise every point has its "
                "own scale: leave one of them out"
            )
        if signature.tokens:
            raise ConfigError(f"augmentation '{member.name}' cannot serve a task of tokens; leave it out")


def _draw(x: Tensor, generator: torch.Generator, batch: int | None, start: int) -> Tensor:
    """Uniform numbers for the samples of ``x`` out of those for the whole batch."""
    # -> (samples of x, axes), float64 on the CPU
    samples = x.shape[0]
    whole = samples if batch is None else batch
    assert start + samples <= whole, f"samples {start} to {start + samples} of a batch of {whole}"
    return torch.rand(whole, x.ndim - 2, generator=generator, dtype=torch.float64)[start : start + samples]
