"""The fitted model as a row of the trial table: genotype and weights lie in a folder, as those of a trained network."""

from typing import Any

import torch

from eclose.engine.predictors import Predictor
from eclose.engine.strategy import Search
from eclose.runs import Run, Trial
from eclose.spaces import assemble, unit_scale
from eclose.train import measure_cost, save_tensors


def record_fitted(
    run: Run, search: Search, predictor: Predictor, number: int, role: str, seed: int, **figures: Any
) -> Trial:
    """Write the files of a fitted model, then its row, with what is known of it."""
    genotype = predictor.genotype
    signature, setting = search.task.signature, search.config.task.standardise
    # It takes raw values as they are: what a network is assembled with changes nothing of them.
    model = assemble(predictor.model, signature, unit_scale(signature, setting))
    folder = run.trial_folder(number)
    genotype.save(folder)
    save_tensors(folder / "weights.safetensors", dict(model.state_dict()))
    named = (predictor.name, genotype.space, genotype.choices, genotype.hash)
    flops = measure_cost(model, signature, torch.device("cpu")).flops
    costs = {"parameters": predictor.row()["parameters"], "architecture_parameters": 0, "flops": flops}
    told = {"description": genotype.description, "seconds": predictor.seconds, **costs, **figures}
    row = Trial(number, role, *named, seed, state="done", **told)
    run.table.put(row)
    return row
