"""The final stage (einspace paper, B.1): what was chosen is trained anew on training and validation samples together.

No samples are left by which such a training could be compared fairly with its trial. It is compared on the validation
samples nevertheless: it has seen them and the trial has not, so that one which is worse there is worse indeed.
"""

import math
from dataclasses import replace

import torch

from eclose.engine.result import is_fitted
from eclose.engine.strategy import Search, is_trained_anew
from eclose.runs import Trial
from eclose.tasks.scale import measure_scale, standardise_of
from eclose.tasks.splits import join, spread
from eclose.tasks.task import Split
from eclose.train.metrics import Metric

_MARGIN = 1.1  # times the error: less may be chance


def final_search(search: Search) -> Search:
    """The surroundings of final trainings and of the baselines beside them; the given ones without a final stage.

    Without test samples nothing would be left to judge a network by that has seen all others: then there is no such
    stage, or it leaves validation samples alone. So it does where test samples validate (``task.val=0``). Where they
    are learned from, the last weights are kept.
    """
    task, config, final = search.task, search.config, search.config.final
    judged = task.test is not None or not final.all_samples or is_trained_anew(search)
    if not final.networks or not judged:
        return search
    search = replace(search, teacher=search.teacher if config.teacher.final else None)
    config = config.with_sections(final.options)
    if not final.all_samples or task.test is None or _same_samples(task.val, task.test):
        return replace(search, config=config)
    samples = join(task.train, task.val)
    scale = measure_scale(samples, task.signature, standardise_of(task.scale))
    task = replace(task, train=samples, val=task.val.select(torch.arange(0)), scale=scale)
    return replace(search, task=task, config=replace(config, train=replace(config.train, keep="last")))


def _same_samples(one: Split, other: Split) -> bool:
    some = spread(len(one), 32)
    return len(one) == len(other) and torch.equal(one.take(some)[0], other.take(some)[0])


def _told_apart(one: float, other: float) -> tuple[str, str]:
    """With as many digits as it takes, four at least."""
    for digits in range(4, 17):
        texts = f"{one:.{digits}g}", f"{other:.{digits}g}"
        if texts[0] != texts[1]:
            break
    return texts


def behind(final: Trial, chosen: Trial, metric: Metric) -> str:
    """How a final training is clearly worse than the trial that it was chosen for; empty if it is not."""
    if final.state == "failed":
        return f"its final training failed: {final.reason}"
    if final.fit is None or chosen.valid is None:  # rows of older runs
        return ""
    if not math.isnan(final.fit) and metric.short_of(final.fit) <= _MARGIN * metric.short_of(chosen.valid):
        return ""
    figures = f"{metric.name} {' against '.join(_told_apart(final.fit, chosen.valid))} of trial {chosen.number}"
    what = "final training is worse than the trial it was chosen for"
    if is_fitted(final):
        what = "fit to all samples is worse than that to training samples alone"
    return f"this {what}: {figures} on the validation samples"
