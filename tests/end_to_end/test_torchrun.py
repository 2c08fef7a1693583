"""Two processes with half the batch each compute what one process with the whole batch does."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from eclose.runs import Run
from tests.end_to_end.command import eclose, python

# An odd last batch; no dropout, whose draws belong to the process.
SEARCH = [
    *("search", "--task", "digits", "--epochs", "2", "--json", "--device", "cpu"),
    *("--set", "task.subset=107", "--set", "task.subset_eval=61", "--set", "train.batch=20", "--set", "run.threads=1"),
    *("--set", "optimiser.name=sgd", "--set", "optimiser.learning_rate=0.002"),  # a large one amplifies rounding
    *("--set", "train.keep=last", "--set", "optimiser.clip=5.0", "--set", "task.metric=nll"),
]
# Batch normalisation and augmentation.
RESNET = [
    *("--space", "backbone", "--backbone", "resnet20"),
    *("--set", 'augment.names=["crop", "cutout"]', "--set", "augment.cutout.size=3"),
]
SIZES = {"backbone.width": 4, "backbone.blocks": 2, "backbone.hidden": 8, "space.target": 0.7}
DNARCH = ["--space", "dnarch", *(word for name, value in SIZES.items() for word in ("--set", f"{name}={value}"))]


@pytest.mark.parametrize("space", [RESNET, DNARCH], ids=["resnet", "dnarch"])
def test_two_processes_equal_one(tmp_path: Path, space: list[str]) -> None:
    one = eclose(*SEARCH, *space, "--out", "one", cwd=tmp_path)
    assert one.returncode == 0, one.stderr
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    two = python(*torchrun, "-m", "eclose", *SEARCH, *space, "--out", "two", cwd=tmp_path)
    assert two.returncode == 0, two.stderr
    alone, together = json.loads(one.stdout), json.loads(two.stdout)
    assert abs(alone["test"] - together["test"]) < 2e-3 * alone["test"]
    assert abs(alone["valid"] - together["valid"]) < 2e-3 * alone["valid"]
    histories = [Run.open(tmp_path / name).table.all()[0].history for name in ("one", "two")]
    for single, double in zip(*histories, strict=True):
        assert abs(single["train_loss"] - double["train_loss"]) < 1e-3 * single["train_loss"]
    weights, others = (load_file(tmp_path / name / "weights.safetensors") for name in ("one", "two"))
    assert weights.keys() == others.keys()
    vectors = [torch.cat([part[name].double().flatten() for name in weights]) for part in (weights, others)]
    assert (vectors[0] - vectors[1]).norm() < 1e-3 * vectors[0].norm()
