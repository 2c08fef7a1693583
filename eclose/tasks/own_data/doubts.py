"""Doubts that numbers alone raise: nothing to learn, classes that are rare, targets that no error can relate to."""

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from eclose.plural import plural
from eclose.signature import Signature
from eclose.tasks.splits import blocks
from eclose.tasks.task import Split

_MOST = 0.9  # of the samples, for one class
_NAMED = 6  # classes and outputs whose names are shown


def constants(train: Split, signature: Signature) -> list[str]:
    """Doubts about inputs or targets that are the same in every training sample."""
    doubts: list[str] = []
    if len(train) < 2:
        return doubts
    inputs, targets = _varying(train)
    if not bool(inputs.any()):
        doubts.append("x is the same in every training sample: there is nothing to learn from")
    if not bool(targets.any()):
        value = f" ({float(train.y.reshape(-1)[0]):g})" if signature.kind == "regression" and len(targets) == 1 else ""
        doubts.append(f"y is the same in every training sample{value}: there is nothing to learn")
    elif not signature.labels and not bool(targets.all()):
        same = (~targets).nonzero()[:, 0].tolist()
        which = f"output {same[0]}" if len(same) == 1 else f"outputs {', '.join(map(str, same[:_NAMED]))}"
        more = ", ..." if len(same) > _NAMED else ""
        doubts.append(f"y does not vary in {which}{more}, counted from 0: leave out what is the same in every sample")
    return doubts


def _varying(train: Split) -> tuple[Tensor, Tensor]:
    """Which channels of x, and which outputs of y, are not the same in all samples."""
    first = train.take(torch.arange(1))
    found = [torch.zeros(values[0].shape[0] if values.ndim > 1 else 1, dtype=torch.bool) for values in first]
    for index in blocks(train):
        for varies, values, one in zip(found, train.take(index), first, strict=True):
            varies |= (values != one).reshape(len(index), len(varies), -1).any(2).any(0)
        if all(bool(varies.all()) for varies in found):
            break
    return found[0], found[1]


def rare_classes(splits: Mapping[str, Split], signature: Signature, classes: Sequence[int | str]) -> list[str]:
    """Doubts about classes that are nearly all there is, or that no figure will show."""
    if not signature.labels:
        return []
    judged = [part for part in ("val", "test") if part in splits]
    counts = {part: _occurrences(splits[part], len(classes)) for part in ("train", *judged)}
    doubts = []
    share = float(counts["train"].max() / counts["train"].sum())
    if share > _MOST:
        name = classes[int(counts["train"].argmax())]
        what = "training samples" if signature.pooled else "points of the training samples"
        told = f"{100 * share:.3g} % of the {what} are of class {name}: accuracy says little of the others"
        judges = int((counts["val"] > 0).sum()) > 1
        doubts.append(told + "; --set task.metric=auroc judges how well they are told apart" * judges)
    missing = [name for number, name in enumerate(classes) if any(counts[part][number] == 0 for part in judged)]
    if missing:
        named = ", ".join([*map(str, missing[:_NAMED]), *(["..."] if len(missing) > _NAMED else [])])
        doubts.append(
            f"{plural(len(missing), 'class')} of {len(classes)} ({named}) {'has' if len(missing) == 1 else 'have'} no "
            f"validation or no test {'sample' if signature.pooled else 'point'}: how well they are told apart does not "
            f"show; give more samples {'of each' if signature.pooled else 'with each'}"
        )
    return doubts


def _occurrences(split: Split, classes: int) -> Tensor:
    """How often each class occurs; no input is read."""
    counts = torch.zeros(classes, dtype=torch.long)
    for index in blocks(split):
        labels = split.y[index if split.rows is None else split.rows[index]]
        counts += torch.bincount(labels.long().flatten(), minlength=classes)
    return counts


def zero_targets(splits: Iterable[Split], signature: Signature) -> str:
    """How many targets of a dense task are zero at every point, in words; empty where none is.

    So is one that single precision cannot tell from zero beside the largest: errors relative to it would decide alone.
    """
    if signature.kind != "dense":
        return ""
    norms = torch.cat([_norms(split) for split in splits])
    zero = int((norms <= torch.finfo(torch.float32).eps * norms.max()).sum())
    return f"{zero} of {plural(len(norms), 'target')} in y {'is' if zero == 1 else 'are'} zero" if zero else ""


def targets_of(split: Split) -> Tensor:
    """Those of all samples, without reading an input."""
    return split.y if split.rows is None else split.y[split.rows]


def _norms(split: Split) -> Tensor:
    return torch.cat([split.take(index)[1].double().flatten(1).norm(dim=1) for index in blocks(split)])
